//! The command line: which command is meant, and what is said about a line that means none.
//!
//! A new command is a file with an `Args` struct and its `run`, named as a module in `main.rs`,
//! then one line in [`Command`] and one in [`Command::run`]. The doc comment of `Args` is its help.
//! A command that gives an answer takes `--json`, and then prints it as one object per line.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};

use onceward_gateway::config::{holds_password, without_password};
use onceward_gateway::units::Invalid;

use crate::{
    config,
    console::Console,
    demo, doctor,
    exit::{Exit, Failure},
    inspect, list, plan, release, repair, resolve, serve, sweep,
};

/// Make work safe to retry
///
/// A caller names a piece of work with an idempotency key. Onceward sees to it that the work is
/// done at most once for that key, and that every retry gets the first answer back.
#[derive(clap::Parser, Debug)]
#[command(name = "onceward", version, after_long_help = EXIT_STATUS)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the caller wants done; each command's `Args` lives in the file of its name.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Command {
    Demo(demo::Args),
    Serve(serve::Args),
    Doctor(doctor::Args),
    List(list::Args),
    Inspect(inspect::Args),
    Resolve(resolve::Args),
    Release(release::Args),
    Sweep(sweep::Args),
    #[cfg(feature = "postgres")]
    Migrate(crate::migrate::Args),
    Repair(repair::Args),
    Plan(plan::Args),
    Config(config::Args),
}

const EXIT_STATUS: &str = "Exit status: 0 done, 1 no, 2 failed.";

/// Reads the command line, and does what it says.
pub(crate) fn run(console: &Console) -> Result<Exit, Failure> {
    let read = Cli::command().try_get_matches().and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((cli, matches))
    });
    match read {
        Ok((cli, matches)) => {
            refuse_password(&matches)?;
            cli.command.run(console)
        }
        Err(refusal) => refuse(refusal, console),
    }
}

/// Refuses a password on the command line, where every user of the machine can read it.
fn refuse_password(matches: &ArgMatches) -> Result<(), Failure> {
    let Some((_, command)) = matches.subcommand() else {
        return Ok(());
    };
    for (option, hint) in [
        (
            STORE,
            "set PGPASSWORD, or give the whole URL in ONCEWARD_STORE",
        ),
        (
            CACHE,
            "set ONCEWARD_REDIS_PASSWORD, or give the whole URL in ONCEWARD_CACHE",
        ),
    ] {
        let is_typed = command.try_contains_id(option).is_ok()
            && command.value_source(option) == Some(ValueSource::CommandLine);
        let typed = is_typed.then(|| command.get_raw(option)).flatten();
        let mut texts = typed.into_iter().flatten().filter_map(|raw| raw.to_str());
        if texts.any(holds_password) {
            return Err(Failure::new(
                format!("--{option} holds a password, which every user of this machine could read"),
                hint,
            ));
        }
    }
    Ok(())
}

/// The option that names a store, in all commands that have one.
const STORE: &str = "store";

/// The option that names a cache, in the same commands.
const CACHE: &str = "cache";

/// Says what is wrong with a command line, or prints the help or version that it asks for.
fn refuse(refusal: clap::Error, console: &Console) -> Result<Exit, Failure> {
    if !refusal.use_stderr() {
        return console.help(&refusal).map(|()| Exit::Done);
    }
    Err(invalid_value(&refusal).unwrap_or(Failure::Usage(refusal)))
}

/// Returns the failure that a value's own parser explains, if that is what went wrong.
///
/// All other errors are left in clap's words, which name the nearest option and the usage.
fn invalid_value(refusal: &clap::Error) -> Option<Failure> {
    let invalid = refusal.source()?.downcast_ref::<Invalid>()?;
    let context = |kind| match refusal.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    // clap names the option together with its placeholder: "--rate <PER_SECOND>".
    let option = context(ContextKind::InvalidArg)
        .split(' ')
        .next()
        .unwrap_or_default();
    let value = without_password(context(ContextKind::InvalidValue));
    Some(Failure::new(
        format!("{option} {value:?} {invalid}"),
        invalid.hint(),
    ))
}

// === impl Command ===

impl Command {
    /// Does what the command says.
    pub(crate) fn run(self, console: &Console) -> Result<Exit, Failure> {
        match self {
            Self::Demo(args) => args.run(console),
            Self::Serve(args) => args.run(console),
            Self::Doctor(args) => args.run(console),
            Self::List(args) => args.run(console),
            Self::Inspect(args) => args.run(console),
            Self::Resolve(args) => args.run(console),
            Self::Release(args) => args.run(console),
            Self::Sweep(args) => args.run(console),
            #[cfg(feature = "postgres")]
            Self::Migrate(args) => args.run(console),
            Self::Repair(args) => args.run(console),
            Self::Plan(args) => args.run(console),
            Self::Config(args) => args.run(console),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// Returns the commands that a help text shows, one per item.
    fn examples(help: &str) -> Vec<String> {
        let joined = help.replace("\\\n", " ");
        let lines = joined.lines().map(str::trim);
        let commands = lines.filter(|line| line.starts_with("onceward "));
        // A pipe, a file for the output and a remark are for the shell.
        let alone = commands.map(|line| line.split(['|', '>', '#']).next().unwrap_or(line));
        alone.map(str::to_owned).collect()
    }

    /// Returns the words of a command, of which some may be quoted.
    fn words(command: &str) -> Vec<String> {
        let parts = command.split('"').enumerate();
        parts
            .flat_map(|(at, part)| match at % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            })
            .collect()
    }

    #[test]
    fn command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_teaches_by_examples_that_mean_something() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_long_help().unwrap().to_string();
            let examples = examples(&help);
            assert!(!examples.is_empty(), "{}", command.get_name());
            for example in examples {
                let parsed = Cli::try_parse_from(words(&example));
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn runbook_gives_commands_that_mean_something() {
        let runbooks = [
            include_str!("../../../docs/operations.md"),
            include_str!("../../../docs/postgres.md"),
            include_str!("../../../docs/redis.md"),
        ];
        let commands: Vec<_> = runbooks.iter().flat_map(|text| examples(text)).collect();
        assert!(commands.len() > 15, "{commands:?}");
        for command in commands {
            let parsed = Cli::try_parse_from(words(&command));
            assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn passwords_are_refused_wherever_a_store_is_named() {
        const URL: &str = "postgres://ann:s3cret@127.0.0.1/app";
        let mut named = 0;
        for command in Cli::command().get_subcommands() {
            let has_store = command
                .get_arguments()
                .any(|option| option.get_id() == STORE);
            let takes_url = command.get_arguments().any(|option| {
                let names = option.get_value_names().unwrap_or_default();
                option.get_long() == Some(STORE) && names.iter().any(|name| *name == "URL")
            });
            assert_eq!(has_store, takes_url, "{}", command.get_name());
            named += usize::from(has_store);
        }
        assert!(named > 5, "{named}");
        let line = ["onceward", "list", "--store", URL];
        let matches = Cli::command().try_get_matches_from(line).unwrap();
        let refused = format!("{:?}", refuse_password(&matches).unwrap_err());
        assert!(refused.contains("ONCEWARD_STORE"), "{refused}");
        assert!(!refused.contains("s3cret"), "{refused}");
        let line = [
            "onceward",
            "list",
            "--store",
            "postgres://ann@127.0.0.1/app",
            "--cache",
            "redis://ann:s3cret@127.0.0.1",
        ];
        let matches = Cli::command().try_get_matches_from(line).unwrap();
        let refused = format!("{:?}", refuse_password(&matches).unwrap_err());
        assert!(refused.contains("ONCEWARD_CACHE"), "{refused}");
        assert!(!refused.contains("s3cret"), "{refused}");
        let line = [
            "onceward",
            "list",
            "--store",
            "postgres://ann@127.0.0.1/app",
        ];
        let matches = Cli::command().try_get_matches_from(line).unwrap();
        assert!(refuse_password(&matches).is_ok());
    }

    #[test]
    fn every_command_and_option_has_help() {
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for option in command.get_arguments() {
                assert!(option.get_help().is_some(), "{option}");
            }
        }
    }
}
