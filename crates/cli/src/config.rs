//! `onceward config`: check a configuration, print one, or print what callers have to know.

use std::path::Path;

use onceward_gateway::config::{self, Config, LoadError, Overrides, Token, reference};

use crate::{
    console::Console,
    exit::{Exit, Failure},
    trouble,
};

mod check;
mod contract;

/// Check a configuration, or print an example or the rules for callers
///
/// Nothing is started and nothing is changed. A configuration is a TOML file, given to the
/// gateway as --config FILE; all its fields are in docs/reference/config.md.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What is to be done with a configuration.
#[derive(clap::Subcommand, Debug)]
enum Command {
    Check(check::Args),

    /// Print a configuration with everything in it, explained
    ///
    /// It is valid as it is, and sets nothing but defaults, an upstream and two routes.
    Example,

    Contract(contract::Args),
}

/// Where a configuration comes from, apart from its file.
#[derive(clap::Args, Debug)]
#[group(skip)]
struct Given {
    /// The service behind the gateway, where the file leaves it to the command line
    #[arg(long, value_name = "URL", value_parser = config::upstream_url)]
    upstream: Option<String>,
}

const EXAMPLES: &str = "\
Exit status: 0 done, 1 the configuration is not valid, 2 it cannot be read.

Examples:
  onceward config example > onceward.toml
      begin with a file that explains every field

  onceward config check onceward.toml
      all mistakes at once, each with its line, and what is worth a second look

  onceward config contract onceward.toml
      what callers of this deployment have to know, in Markdown";

// === impl Args ===

impl Args {
    /// Does what the command says.
    pub(crate) fn run(self, console: &Console) -> Result<Exit, Failure> {
        match self.command {
            Command::Check(args) => args.run(console),
            Command::Example => console.data(reference::example()).map(|()| Exit::Done),
            Command::Contract(args) => args.run(console),
        }
    }
}

// === impl Given ===

impl Given {
    /// What counts before the file.
    fn overrides(self) -> Result<Overrides, Failure> {
        Ok(Overrides {
            upstream: self.upstream,
            admin_token: admin_token()?,
            ..Overrides::default()
        })
    }
}

/// The operators' token of the environment, if there is one.
pub(crate) fn admin_token() -> Result<Option<Token>, Failure> {
    let Some(text) = std::env::var_os(ADMIN_TOKEN) else {
        return Ok(None);
    };
    let token = text.to_str().and_then(Token::parse);
    token.map(Some).ok_or_else(|| {
        let hint = format!(
            "set it to {} printable characters or more, or unset it",
            Token::LEN_MIN
        );
        Failure::new(format!("{ADMIN_TOKEN} is not a token"), hint)
    })
}

const ADMIN_TOKEN: &str = "ONCEWARD_ADMIN_TOKEN";

/// Returns the configuration in a file, or what is wrong with it.
fn load(path: &Path, given: Given) -> Result<Result<Config, config::Errors>, Failure> {
    match Config::load(path, given.overrides()?) {
        Ok(config) => Ok(Ok(config)),
        Err(LoadError::Invalid(errors)) => Ok(Err(errors)),
        Err(error) => Err(unreadable(&error)),
    }
}

/// Returns what holds for a gateway, from a file if there is one, or fails with all mistakes told.
pub(crate) fn settled(
    file: Option<&Path>,
    overrides: Overrides,
    console: &Console,
) -> Result<Config, Failure> {
    let read = match file {
        Some(file) => match Config::load(file, overrides) {
            Ok(config) => Ok(config),
            Err(LoadError::Invalid(errors)) => Err(errors),
            Err(error) => return Err(unreadable(&error)),
        },
        None => Config::without_file(overrides),
    };
    read.map_err(|config::Errors(mut problems)| {
        let last = problems
            .pop()
            .expect("there is a mistake in what is refused");
        tell(console, &config::Errors(problems));
        Failure::new(last.to_string(), last.hint)
    })
}

fn unreadable(error: &LoadError) -> Failure {
    Failure::new(
        trouble::in_one_line(error),
        "name a file that can be read, or print one with onceward config example",
    )
}

/// Says what is wrong with a configuration.
fn tell(console: &Console, errors: &config::Errors) {
    for problem in &errors.0 {
        console.say(format_args!("error: {problem}"));
        console.say(format_args!("hint: {}", problem.hint));
    }
}
