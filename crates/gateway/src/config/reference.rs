//! The manual of the configuration: a commented example, and the committed reference.
//!
//! Both are made of the one list of fields, so that neither forgets one.

use std::fmt::Write as _;

use super::fields::{self, Field, Part};

/// How wide the comments of the example are.
const WIDTH: usize = 96;

/// Tables that stand inside another one, each with the field that holds it.
const INNER: [(Part, Part, &str); 9] = [
    (Part::Identity, Part::Jwt, "jwt"),
    (Part::Identity, Part::Header, "header"),
    (Part::Identity, Part::ApiKey, "api_key"),
    (Part::Defaults, Part::KeyFrom, "key_from"),
    (Part::Defaults, Part::Fingerprint, "fingerprint"),
    (Part::Fingerprint, Part::Previous, "previous"),
    (Part::Defaults, Part::Probe, "probe"),
    (Part::Defaults, Part::Unique, "unique"),
    (Part::Defaults, Part::Suspect, "suspect"),
];

/// Tables that are left out of the example's own settings, for they name files or callers that
/// only the reader knows.
const COMMENTED: [Part; 2] = [Part::Tls, Part::Identity];

const EXAMPLE_HEAD: &str = "\
## Onceward: a gateway that makes work safe to retry.
##
## Everything that can be set, with its default. A line that begins with # is a setting that is
## left out here: take the # away to use it. Durations are written 500ms, 10s, 5m, 24h or 1d, sizes
## 512B, 64KiB or 1MiB. Paths are relative to the working directory. Check a file with:
## onceward config check FILE
";

const EXAMPLE_ROUTE: &str = "\
[[route]]
match = \"POST /payments\"
operation = \"pay\"
key = \"required\"
retention = \"7d\"
fingerprint = { body = \"json\", ignore = [\"/description\"] }

[[route]]
match = \"* /internal/{*rest}\"
key = \"off\"
";

const REFERENCE_HEAD: &str = "\
# Configuration reference

A TOML file, given as `onceward serve --config FILE`. `onceward config check FILE` checks it,
`onceward config example` prints one with everything in it, and `onceward config contract FILE`
prints what callers have to know. The command line counts before the file.

Unknown fields are refused. Durations are written `500ms`, `10s`, `5m`, `24h` or `1d`, sizes
`512B`, `64KiB` or `1MiB`. Paths are relative to the working directory.
";

/// Returns a configuration in which every field is explained. It is valid as it is.
pub fn example() -> String {
    let mut text = EXAMPLE_HEAD.to_owned();
    let inner = |part| INNER.iter().any(|(_, inner, _)| *inner == part);
    for part in Part::ALL.into_iter().filter(|part| !inner(*part)) {
        text.push('\n');
        if part == Part::Top {
            example_fields(&mut text, part, |field| !is_table(field));
            continue;
        }
        comment(&mut text, "", part.doc());
        if part == Part::Route {
            for field in fields::of(part).filter(|field| field.part == part) {
                explain(&mut text, "  ", field);
            }
            text.push('\n');
            text.push_str(EXAMPLE_ROUTE);
            continue;
        }
        let mark = if COMMENTED.contains(&part) { "# " } else { "" };
        let _ = writeln!(text, "{mark}{}\n", part.title());
        example_fields(&mut text, part, |_| true);
    }
    while text.ends_with("\n\n") {
        text.pop();
    }
    text
}

/// Returns the reference, in Markdown.
pub fn markdown() -> String {
    let mut text = REFERENCE_HEAD.to_owned();
    for part in Part::ALL {
        let _ = write!(text, "\n## {}\n\n{}\n\n", title(part), part.doc());
        text.push_str("| field | value | default | |\n|---|---|---|---|\n");
        for field in fields::of(part).filter(|field| field.part == part) {
            let Field {
                name,
                kind,
                default,
                example,
                doc,
                ..
            } = field;
            let doc = doc.replace('|', "\\|");
            let _ = writeln!(
                text,
                "| `{name}` | {kind} | {default} | {doc} Example: `{example}` |"
            );
        }
    }
    text
}

fn title(part: Part) -> String {
    match part {
        Part::Top => "Top of the file".to_owned(),
        part => format!("`{}`", part.title()),
    }
}

/// Whether a field at the top is a table that has its own chapter.
fn is_table(field: &Field) -> bool {
    field.part == Part::Top && field.doc.contains("see [")
}

fn example_fields(text: &mut String, part: Part, wanted: impl Fn(&Field) -> bool) {
    for field in fields::of(part).filter(|field| wanted(field)) {
        comment(text, "", field.doc);
        comment(
            text,
            "",
            &format!("Value: {}. {}", field.kind, default(field)),
        );
        inner_fields(text, part, field.name, "  ");
        let mark = if is_set(field) { "" } else { "# " };
        let _ = writeln!(text, "{mark}{} = {}\n", field.name, field.example);
    }
}

/// Whether the example sets the field, to its default.
fn is_set(field: &Field) -> bool {
    let same = field.example.trim_matches('"') == field.default;
    let url = field.part == Part::Upstream && field.name == "url";
    (same || url) && !COMMENTED.contains(&field.part)
}

/// Explains the fields of the table that a field holds, if it holds one.
fn inner_fields(text: &mut String, part: Part, name: &str, indent: &str) {
    let holds = |(outer, _, held): &&(Part, Part, &str)| *outer == part && *held == name;
    let Some((_, inner, _)) = INNER.iter().find(holds) else {
        return;
    };
    for field in fields::of(*inner) {
        explain(text, indent, field);
        inner_fields(text, *inner, field.name, &format!("{indent}  "));
    }
}

fn explain(text: &mut String, indent: &str, field: &Field) {
    let Field {
        name, kind, doc, ..
    } = field;
    let line = format!("{name}: {kind}. {doc} {}", default(field));
    comment(text, indent, &line);
}

/// What holds without the field, as a sentence.
fn default(field: &Field) -> String {
    match field.default {
        "needed" => "Needed.".into(),
        default => format!("Default: {default}."),
    }
}

/// Writes a comment, wrapped.
fn comment(text: &mut String, indent: &str, words: &str) {
    let mut line = String::new();
    for word in words.split_whitespace() {
        if !line.is_empty() && line.len() + word.len() + indent.len() + 4 > WIDTH {
            let _ = writeln!(text, "## {indent}{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(text, "## {indent}{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Overrides};

    const REFERENCE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/config.md"
    );

    #[test]
    fn example_is_a_configuration_without_a_warning() {
        let config = Config::parse(&example(), "example", Overrides::default());
        let config = config.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(config.warnings, []);
        assert_eq!(config.routes.len(), 2);
    }

    #[test]
    fn example_sets_nothing_but_defaults_outside_of_its_routes() {
        let config = Config::parse(&example(), "example", Overrides::default()).unwrap();
        let usual = Config::default_for("http://127.0.0.1:3000").unwrap();
        let routes = config.routes.clone();
        assert_eq!(config, Config { routes, ..usual });
    }

    #[test]
    fn example_explains_every_field() {
        let example = example();
        for part in Part::ALL {
            for field in fields::of(part) {
                let name = field.name;
                let explained = example.lines().any(|line| {
                    let words = line.trim_start_matches(['#', ' ']);
                    let after = words.strip_prefix(name).unwrap_or_default();
                    after.starts_with(": ") || after.starts_with(" = ") || is_table(field)
                });
                assert!(explained, "{name} of {}", part.title());
            }
        }
    }

    #[test]
    fn a_setting_that_is_left_out_can_be_taken_in() {
        let example = example();
        let is_setting = |line: &&str| line.starts_with("# ") && line.contains(" = ");
        let settings: Vec<_> = example.lines().filter(is_setting).collect();
        assert!(settings.len() > 15, "{settings:?}");
        for setting in settings {
            // Those of a table that is left out come with it, the two ways to say where the service
            // is exclude each other, and a cache needs a database behind it.
            let taken = example.replace(setting, &setting[2..]);
            let taken = match Config::parse(&taken, "example", Overrides::default()) {
                Ok(_) => continue,
                Err(errors) => errors.to_string(),
            };
            let excused = [
                "unknown field",
                "duplicate key",
                "probe is used",
                "in front of a PostgreSQL store",
            ];
            let excused = excused.iter().any(|part| taken.contains(part));
            let in_table = [
                "cert", "key =", "from", "jwt", "header =", "api_key", "upstream", "cache",
            ];
            let in_table = in_table.iter().any(|name| setting[2..].starts_with(name));
            assert!(
                excused && (in_table || setting.contains("probe")),
                "{setting}: {taken}"
            );
        }
    }

    #[test]
    fn reference_is_up_to_date() {
        if std::env::var_os("ONCEWARD_BLESS").is_some() {
            std::fs::create_dir_all(std::path::Path::new(REFERENCE).parent().unwrap()).unwrap();
            std::fs::write(REFERENCE, markdown()).unwrap();
        }
        let committed = std::fs::read_to_string(REFERENCE).unwrap_or_default();
        assert!(
            committed == markdown(),
            "docs/reference/config.md is out of date; renew it with: \
             ONCEWARD_BLESS=1 cargo test -p onceward-gateway reference_is_up_to_date"
        );
    }
}
