//! What is said about a file that is not valid.

use super::{check, problems};

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let text = "listen = 8080\nstrct = true\n[defaults]\nretentoin = \"1h\"\nlease = \"10\"\n\
                [[route]]\nmatch = \"post /a\"\nkey = \"needed\"\n";
    let errors = check(text).unwrap_err().to_string();
    let wanted = "\
f.toml:1:1: there is no upstream
  hint: write upstream = \"http://127.0.0.1:3000\", or give --upstream
f.toml:1:10: listen is an integer, where a text in quotes is wanted
  hint: write listen = \"127.0.0.1:8080\"
f.toml:2:1: unknown field \"strct\" in the top of the file
  hint: did you mean strict?
f.toml:4:1: unknown field \"retentoin\" in [defaults]
  hint: did you mean retention?
f.toml:5:9: lease \"10\" has no unit
  hint: write a whole number and a unit, such as 500ms, 10s, 5m, 24h or 1d, up to 36500d
f.toml:7:9: match \"post /a\" begins with \"post\", which is not a method
  hint: write a method in capitals, such as POST, or * for any
f.toml:8:7: key \"needed\" is not known
  hint: write one of required, optional, derived, off";
    assert_eq!(errors, wanted);
}

#[test]
fn each_mistake_is_told_at_its_place() {
    for (text, wanted) in [
        (
            "[defaults]\nlease = \"99ms\"",
            "3:9: lease \"99ms\" is too short",
        ),
        (
            "[defaults]\nwait = \"31s\"",
            "3:8: wait \"31s\" is too long",
        ),
        (
            "[defaults]\nretention = \"0s\"",
            "3:13: retention \"0ms\" is no time",
        ),
        (
            "[defaults]\nunknown_retention = \"0s\"",
            "3:21: unknown_retention",
        ),
        (
            "[defaults]\nupstream_timeout = \"0s\"",
            "3:20: upstream_timeout",
        ),
        ("[defaults]\nkey_age_max = \"0s\"", "3:15: key_age_max"),
        (
            "[defaults]\nmax_answer = \"1MB\"",
            "3:14: max_answer \"1MB\" has an unknown unit",
        ),
        (
            "[defaults]\neffect = \"probed\"",
            "3:10: effect = \"probed\" needs a probe",
        ),
        (
            "[defaults]\nprobe = { url = \"/a\" }",
            "3:17: probe is used for",
        ),
        ("[defaults]\nprobe = {}", "3:9: probe has no url"),
        (
            "[defaults]\neffect = \"probed\"\nprobe = { url = \"/a/{id}\" }",
            "4:17: url \"/a/{id}\" has braces",
        ),
        (
            "[defaults]\neffect = \"keyed\"\nduplicates = \"allowed\"",
            "4:14: duplicates = \"allowed\" is for opaque work only",
        ),
        (
            "[defaults]\nstore_statuses = [404]\nrelease_statuses = [\"5xx\", 404]",
            "4:28: 404 stands in two lists",
        ),
        (
            "[defaults]\nstore_statuses = [\"2x\"]",
            "3:19: store_statuses \"2x\" is not a status",
        ),
        (
            "[defaults]\nstore_statuses = [199]",
            "3:19: store_statuses \"199\" is not a status",
        ),
        (
            "[defaults]\nunknown_statuses = [\"6xx\"]",
            "3:21: unknown_statuses \"6xx\" is not a status",
        ),
        (
            "[defaults]\neffect = \"probed\"\nprobe = { url = \"http://169.254.0.1/{key}\" }",
            "4:17: url \"http://169.254.0.1/{key}\" is a link-local or metadata address",
        ),
        (
            "[limits]\nexecutions = 0",
            "3:14: executions is an integer, where a whole number",
        ),
        (
            "[defaults]\nstore_statuses = [true]",
            "3:19: store_statuses is a boolean, where",
        ),
        (
            "[defaults]\nkey_from = {}",
            "3:12: key_from does not name one place",
        ),
        (
            "[defaults]\nkey_from = { header = [] }",
            "3:12: key_from does not name one place",
        ),
        (
            "[defaults]\nkey_from = { json = \"/a\", form = \"b\" }",
            "3:12: key_from does not name one place",
        ),
        (
            "[defaults]\nkey_from = { json = \"a\" }",
            "3:21: json \"a\" is not a JSON pointer",
        ),
        (
            "[defaults]\nkey_from = { header = \"a b\" }",
            "3:23: header \"a b\" is not the name",
        ),
        (
            "[defaults]\nfingerprint = { ignore = [\"/a\"] }",
            "3:26: ignore means nothing unless",
        ),
        (
            "[defaults]\nfingerprint = { body = \"json\", only = [\"/a\"], ignore = [\"/b\"] }",
            "3:39: only and ignore do not go together",
        ),
        ("[[route]]\nkey = \"off\"", "2:1: [[route]] has no match"),
        (
            "[[route]]\nmatch = \"POST /a/{x}\"\n[[route]]\nmatch = \"POST /a/{y}\"",
            "5:9: match \"POST /a/{y}\" is the same as that of line 3",
        ),
        (
            "[[route]]\nmatch = \"POST /a\"\noperation = \"\"",
            "4:13: operation \"\" is not",
        ),
        (
            "route = 7",
            "2:9: route is an integer, where a list of tables",
        ),
        (
            "defaults = 7",
            "2:12: defaults is an integer, where a table is wanted",
        ),
        (
            "listen = \"0.0.0.0:80\"",
            "2:10: listen 0.0.0.0:80 is off loopback and without TLS",
        ),
        (
            "listen = \"[::]:80\"",
            "2:10: listen [::]:80 is off loopback and without TLS",
        ),
        (
            "plaintext = \"yes\"",
            "2:13: plaintext \"yes\" is not known",
        ),
        ("[tls]\ncert = \"c\"", "2:2: [tls] has no key"),
        (
            "[admin]\nlisten = \"0.0.0.0:80\"",
            "3:10: admin listens at 0.0.0.0:80, off loopback",
        ),
        (
            "[admin]\nlisten = \"127.0.0.1:8080\"",
            "3:10: admin listens at 127.0.0.1:8080, as",
        ),
        (
            "[store]\nurl = \"mysql:x\"",
            "3:7: url \"mysql:x\" is not a store URL",
        ),
        (
            "[limits]\nconnections = 0",
            "3:15: connections is an integer, where a whole number",
        ),
        (
            "[limits]\nheader_size = \"1B\"",
            "3:15: header_size \"1B\" is out of range",
        ),
        (
            "[limits]\nidle_timeout = \"0s\"",
            "3:16: idle_timeout \"0s\" lets nobody in",
        ),
        ("[limits]\nheaders = 10001", "3:11: headers is out of range"),
        (
            "[limits]\nstreams = 99999999999",
            "3:11: streams is too large",
        ),
        (
            "[problems]\ntype = \"a b\"",
            "3:8: type \"a b\" is not the beginning",
        ),
        ("[identity]", "2:2: [identity] does not say from what"),
        (
            "[identity]\nfrom = \"jwt\"",
            "3:8: from needs the table jwt",
        ),
        (
            "[identity]\nfrom = \"none\"\nheader = { name = \"X\", peers = [\"::1\"] }",
            "4:1: header is not used with this from",
        ),
        (
            "[identity]\nfrom = \"jwt\"\njwt = {}",
            "4:7: jwt takes either keys or secret_env",
        ),
        (
            "[identity]\nfrom = \"jwt\"\njwt = { keys = \"k\", algorithms = [\"HS256\"] }",
            "4:35: algorithms \"HS256\" is no algorithm for such keys",
        ),
        (
            "[identity]\nfrom = \"header\"\nheader = { name = \"X\", peers = [] }",
            "4:32: header is believed from nobody",
        ),
        (
            "[identity]\nfrom = \"header\"\nheader = { name = \"X\", peers = [\"all\"] }",
            "4:33: peers \"all\" is not a network",
        ),
        (
            "[identity]\nfrom = \"api-key\"\napi_key = {}",
            "4:11: api_key has no keys",
        ),
    ] {
        let told = problems(text);
        let wanted = format!("f.toml:{wanted}");
        assert!(
            told[0].starts_with(&wanted),
            "{text}\n  {told:?}\n  {wanted}"
        );
        assert_eq!(told.len(), 1, "{text}: {told:?}");
    }
}

#[test]
fn a_link_local_upstream_is_refused_at_its_place() {
    let errors = check("upstream = \"http://169.254.169.254\"").unwrap_err();
    let told = errors.0[0].to_string();
    assert!(
        told.starts_with("f.toml:1:12: upstream \"http://169.254.169.254\" is a link-local"),
        "{told}"
    );
}

#[test]
fn what_comes_later_is_refused_by_name() {
    for text in [
        "[defaults]\nmode = \"observe\"",
        "[identity]\nfrom = \"forward-auth\"",
        "[identity]\nfrom = \"mtls\"",
        "[identity]\nfrom = \"none\"\nforward_auth = {}",
    ] {
        let told = problems(text);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].ends_with("is not available in this version"),
            "{told:?}"
        );
    }
}

#[test]
fn a_text_that_is_not_toml_is_told_where() {
    let errors = check("upstream = \"http://x\"\nstrict = \n[store\n").unwrap_err();
    let places: Vec<_> = errors
        .0
        .iter()
        .map(|it| it.place.clone().unwrap().line)
        .collect();
    assert_eq!(places, [2, 3], "{errors}");
    let twice = check("strict = true\nstrict = false").unwrap_err();
    assert!(
        twice.0[0]
            .to_string()
            .starts_with("f.toml:2:1: duplicate key"),
        "{twice}"
    );
}

#[test]
fn columns_count_characters() {
    let told = problems("log = { \"caf\u{e9}\" = 1, fromat = \"json\" }");
    assert!(
        told[1].starts_with("f.toml:2:21: unknown field \"fromat\""),
        "{told:?}"
    );
}

#[test]
fn a_mistake_in_the_defaults_is_told_once() {
    let text = "[defaults]\nlease = \"1ms\"\n[[route]]\nmatch = \"POST /a\"\n[[route]]\nmatch = \"POST /b\"";
    assert_eq!(problems(text).len(), 1);
}
