//! `onceward config check`.

use std::path::{Path, PathBuf};

use onceward::Effect;
use onceward_gateway::{
    config::{Config, Errors, Problem},
    identity::{Identity, Settings},
    server, units,
};
use onceward_http::{KeyNeed, Terms};
use serde::Serialize;

use super::Given;
use crate::{
    console::Console,
    exit::{Exit, Failure},
    show, trouble,
};

/// Say whether a configuration is valid, and everything that is wrong with it
///
/// The files that it names are read as well, and the environment variables that it names looked
/// up: run it where the gateway runs. ONCEWARD_ADMIN_TOKEN counts as it does there.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The configuration
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    given: Given,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The answer for machines.
#[derive(Debug, Serialize)]
struct Answer {
    valid: bool,
    errors: Vec<ProblemView>,
    warnings: Vec<ProblemView>,
    /// How many routes there are; none if the file is not valid.
    routes: Option<usize>,
}

#[derive(Debug, Serialize)]
struct ProblemView {
    file: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
    message: String,
    hint: String,
}

// === impl Args ===

impl Args {
    /// Checks the file, and prints what was found.
    pub(super) fn run(self, console: &Console) -> Result<Exit, Failure> {
        let Self { file, given, json } = self;
        let checked = super::load(&file, given)?.and_then(|config| match beside(&config) {
            none if none.is_empty() => Ok(config),
            wrong => Err(Errors(wrong)),
        });
        let exit = match checked {
            Ok(_) => Exit::Done,
            Err(_) => Exit::No,
        };
        if json {
            console.json(&Answer::of(&checked))?;
            return Ok(exit);
        }
        match &checked {
            Ok(config) => {
                for warning in &config.warnings {
                    console.warn(warning);
                    console.say(format_args!("hint: {}", warning.hint));
                }
                console.data(summary(&file, config))?;
            }
            Err(errors) => super::tell(console, errors),
        }
        Ok(exit)
    }
}

/// What is wrong with a configuration beside its text: what a start would stumble over.
fn beside(config: &Config) -> Vec<Problem> {
    let env = |name: &str| std::env::var(name).ok();
    let mut wrong = Vec::new();
    if let Err(error) = Identity::new(&config.identity, config.is_loopback(), env) {
        wrong.push(Problem::anywhere(
            trouble::in_one_line(&error),
            error.hint(),
        ));
    }
    if let Err(error) = config.admin.token.read() {
        let hint = "put the token into the file, or set ONCEWARD_ADMIN_TOKEN";
        wrong.push(Problem::anywhere(trouble::in_one_line(&error), hint));
    }
    wrong.extend(certificates(config));
    if let Some(refusal) = config.refuses(config.durability()) {
        let hint = "use a store that survives, or set strict = false if you can live with it";
        wrong.push(Problem::anywhere(refusal, hint));
    }
    wrong
}

/// What is wrong with the certificates, of the gateway and of the service behind.
fn certificates(config: &Config) -> Vec<Problem> {
    let tls = config.tls.iter().flat_map(|tls| [&tls.cert, &tls.key]);
    let unreadable = tls.chain(&config.upstream.ca_file).filter_map(|path| {
        let error = std::fs::read(path).err()?;
        let message = format!("{} cannot be read: {error}", path.display());
        let hint = "check the path, which is relative to the working directory";
        Some(Problem::anywhere(message, hint))
    });
    let unreadable: Vec<_> = unreadable.collect();
    if !unreadable.is_empty() {
        return unreadable;
    }
    let mut wrong = Vec::new();
    if let Some(tls) = &config.tls
        && let Err(error) = server::tls(&tls.cert, &tls.key)
    {
        wrong.push(Problem::anywhere(
            trouble::in_one_line(&error),
            error.hint(),
        ));
    }
    if let Err(error) = onceward_gateway::upstream_of(config) {
        wrong.push(Problem::anywhere(
            trouble::in_one_line(&error),
            error.hint(),
        ));
    }
    wrong
}

/// Returns what a valid configuration says, in a line per fact.
fn summary(file: &Path, config: &Config) -> String {
    let line = |name: &str, fact: String| [name.to_owned(), fact];
    let admin = config
        .admin
        .listen
        .map_or("off".into(), |at| at.to_string());
    let mut lines = vec![
        line("valid", file.display().to_string()),
        line("listen", config.listen.to_string()),
        line("upstream", config.upstream.url.clone()),
        line(
            "store",
            match &config.cache {
                Some(cache) => format!("{}, answers cached in {cache}", config.store),
                None => config.store.to_string(),
            },
        ),
        line("admin", admin),
        line("callers", callers(config).into()),
    ];
    for route in &config.routes {
        let terms = terms(&route.terms);
        lines.push(line("route", format!("{}: {terms}", route.pattern)));
    }
    lines.push(line("others", terms(&config.fallback)));
    show::table(&lines)
}

fn callers(config: &Config) -> &'static str {
    match &config.identity {
        Settings::Credential if config.is_loopback() => {
            "by Authorization, else X-Api-Key, unverified; without either one shared caller"
        }
        Settings::Credential => "by Authorization, else X-Api-Key, unverified",
        Settings::Jwt(_) => "by bearer token",
        Settings::Header(_) => "by a header of the proxy",
        Settings::ApiKey(_) => "by API key",
        _ => "one shared caller",
    }
}

fn terms(terms: &Terms) -> String {
    let key = match terms.key {
        KeyNeed::Off => return "keys are off, passed through".into(),
        KeyNeed::Required => "key required",
        _ => "key optional",
    };
    let effect = effect(terms.policy.effect);
    let kept = units::write_duration(terms.policy.retention);
    format!("{key}, {effect}, answers kept for {kept}")
}

/// The name of an effect in a configuration.
pub(super) fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Repeatable => "opaque with duplicates allowed",
        Effect::Transactional => "transactional",
        Effect::Keyed => "keyed",
        Effect::Probed => "probed",
        Effect::Opaque => "opaque",
    }
}

// === impl Answer ===

impl Answer {
    fn of(checked: &Result<Config, Errors>) -> Self {
        let view = |problems: &[Problem]| problems.iter().map(ProblemView::of).collect();
        match checked {
            Ok(config) => Self {
                valid: true,
                errors: Vec::new(),
                warnings: view(&config.warnings),
                routes: Some(config.routes.len()),
            },
            Err(errors) => Self {
                valid: false,
                errors: view(&errors.0),
                warnings: Vec::new(),
                routes: None,
            },
        }
    }
}

// === impl ProblemView ===

impl ProblemView {
    fn of(problem: &Problem) -> Self {
        let place = problem.place.as_ref();
        Self {
            file: place.map(|place| place.file.clone()),
            line: place.map(|place| place.line),
            column: place.map(|place| place.column),
            message: problem.message.clone(),
            hint: problem.hint.clone(),
        }
    }
}
