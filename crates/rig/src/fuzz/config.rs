//! Configurations: any text is understood or refused with places that stand in it.

use http::Method;
use onceward::Durability;
use onceward_gateway::config::{Config, Errors, Overrides, Problem};
use onceward_gateway::route::{Pattern, Routes};

use super::Choices;

const FILE: &str = "onceward.toml";

/// Takes one byte of how, then the text of a file.
///
/// # Panics
///
/// Panics if a place of a problem is not in the text, if a comment or an empty line changes what
/// the text means, or if an accepted route does not match what it says.
pub fn check(bytes: &[u8]) {
    let mut from = Choices(bytes);
    let upstream = from.flag();
    let Ok(text) = str::from_utf8(from.rest()) else {
        return;
    };
    let parse = |text: &str| {
        let overrides = Overrides {
            upstream: upstream.then(|| "http://127.0.0.1:3000".to_owned()),
            ..Overrides::default()
        };
        Config::parse(text, FILE, overrides)
    };
    let read = parse(text);
    match &read {
        Ok(config) => {
            config.warnings.iter().for_each(|it| stands_in(it, text));
            matches_what_it_says(config);
        }
        Err(Errors(problems)) => {
            assert!(!problems.is_empty());
            problems.iter().for_each(|it| stands_in(it, text));
        }
    }
    assert!(parse(text) == read, "one text has one meaning");
    // A byte order mark stands first or is an error.
    if !text.starts_with('\u{feff}') {
        let lower = parse(&format!("\n{text}"));
        assert!(
            unnumbered(lower) == unnumbered(moved(read.clone())),
            "an empty line counts"
        );
    }
    if let Ok(config) = &read {
        let commented = parse(&format!("{text}\n# a remark"));
        assert!(commented.as_ref() == Ok(config), "a remark counts");
    }
}

/// The same one line further down.
fn moved(read: Result<Config, Errors>) -> Result<Config, Errors> {
    let down = |problems: &mut Vec<Problem>| {
        let places = problems.iter_mut().filter_map(|it| it.place.as_mut());
        places.for_each(|place| place.line += 1);
    };
    match read {
        Ok(mut config) => {
            down(&mut config.warnings);
            config.routes.iter_mut().for_each(|route| route.line += 1);
            Ok(config)
        }
        Err(mut errors) => {
            down(&mut errors.0);
            Err(errors)
        }
    }
}

/// Without the numbers of lines that texts mention, and without places at the top: what is
/// missing stands there, in whichever line that is.
fn unnumbered(mut read: Result<Config, Errors>) -> Result<Config, Errors> {
    let problems = match &mut read {
        Ok(config) => &mut config.warnings,
        Err(errors) => &mut errors.0,
    };
    for problem in problems.iter_mut() {
        problem.place = problem
            .place
            .take()
            .filter(|it| it.line > 2 || it.column > 1);
    }
    for text in problems
        .iter_mut()
        .flat_map(|it| [&mut it.message, &mut it.hint])
    {
        text.retain(|sign| !sign.is_ascii_digit());
    }
    read
}

fn stands_in(problem: &Problem, text: &str) {
    assert!(
        !problem.message.is_empty() && !problem.hint.is_empty(),
        "{problem:?}"
    );
    let Some(place) = &problem.place else {
        return;
    };
    // The end of the text is a place as well, and may be the beginning of a line.
    let line = place
        .line
        .checked_sub(1)
        .and_then(|at| text.split('\n').nth(at));
    let len = line
        .unwrap_or_else(|| panic!("no line {}", place.line))
        .chars()
        .count();
    assert!(
        (1..=len + 1).contains(&place.column),
        "no column {}",
        place.column
    );
    let told = format!("{FILE}:{}:{}: ", place.line, place.column);
    assert!(problem.to_string().starts_with(&told), "{problem}");
}

fn matches_what_it_says(config: &Config) {
    for durability in [
        Durability::D0,
        Durability::D1,
        Durability::D2,
        Durability::D3,
    ] {
        let refused = config.refuses(durability).is_some();
        assert!(!refused || config.strict && durability < Durability::D2);
    }
    for route in &config.routes {
        let again = Pattern::parse(&route.pattern.to_string());
        assert_eq!(again.as_ref(), Ok(&route.pattern), "{}", route.pattern);
    }
    let routes = Routes::new(config.routes.clone());
    for route in &config.routes {
        let method = route.pattern.method().unwrap_or(&Method::POST);
        let path = concrete(&route.pattern.path());
        if route.pattern.captures(&path).is_some() {
            assert!(
                routes.find(method, &path).is_some(),
                "{path} finds no route"
            );
        }
    }
}

/// A path that a pattern may match: every name stands for itself.
fn concrete(pattern: &str) -> String {
    pattern.replace(['{', '}', '*'], "")
}
