//! What is allowed, and warned about.

use super::{Problem, check, parsed};

fn warnings(text: &str) -> Vec<String> {
    parsed(text)
        .warnings
        .iter()
        .map(Problem::to_string)
        .collect()
}

#[test]
fn what_is_rarely_meant_is_warned_about() {
    let open = "listen = \"0.0.0.0:80\"\nplaintext = \"behind-proxy\"\n";
    for (text, wanted) in [
        (
            "[defaults]\nretention = \"59m\"".to_owned(),
            "3:13: a retention of 59m is short",
        ),
        (
            "[defaults]\nkey_age_max = \"25h\"".to_owned(),
            "3:15: keys may be 25h old, but answers are kept for 1d",
        ),
        (
            "[defaults]\nduplicates = \"allowed\"".to_owned(),
            "3:14: duplicates are allowed",
        ),
        (
            "[[route]]\nmatch = \"GET /a\"".to_owned(),
            "3:9: GET requests are passed through",
        ),
        (
            format!("{open}[identity]\nfrom = \"none\""),
            "5:8: all callers are one caller",
        ),
        (
            "[identity]\nfrom = \"jwt\"\njwt = { keys = \"k\" }".to_owned(),
            "4:7: jwt has no audience",
        ),
        (
            "[identity]\nfrom = \"header\"\nheader = { name = \"X\", peers = [\"::/0\"] }"
                .to_owned(),
            "4:33: peers holds ::/0, which is everybody",
        ),
    ] {
        let told = warnings(&text);
        assert_eq!(told.len(), 1, "{text}: {told:?}");
        assert!(told[0].starts_with(&format!("f.toml:{wanted}")), "{told:?}");
    }
    let none = [
        "[defaults]\nretention = \"1h\"",
        "[identity]\nfrom = \"none\"",
        open,
    ];
    for text in none {
        assert_eq!(warnings(text), [""; 0], "{text}");
    }
}

#[test]
fn successes_that_are_not_kept_are_warned_about() {
    for (list, told) in [
        (
            "release_statuses = [503, 201]",
            "3:26: release_statuses holds 201, a success: a retry",
        ),
        (
            "release_statuses = [\"2xx\"]",
            "3:21: release_statuses holds 2xx, a success: a retry",
        ),
        (
            "unknown_statuses = [202]",
            "3:21: unknown_statuses holds 202, a success: retries",
        ),
    ] {
        let warned = warnings(&format!("[defaults]\n{list}"));
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(
            warned[0].starts_with(&format!("f.toml:{told}")),
            "{warned:?}"
        );
    }
    let usual = "[defaults]\nstore_statuses = [\"2xx\"]\nrelease_statuses = [\"3xx\", 429]";
    assert_eq!(warnings(usual), [""; 0]);
}

#[test]
fn an_upstream_that_is_the_gateway_itself_is_warned_about() {
    let open = "plaintext = \"behind-proxy\"\n";
    for (listen, upstream, warned) in [
        ("127.0.0.1:8080", "http://127.0.0.1:8080", true),
        ("127.0.0.1:8080", "http://localhost:8080/", true),
        ("[::1]:80", "http://[::1]", true),
        ("0.0.0.0:8080", "http://127.0.0.1:8080", true),
        ("127.0.0.1:8080", "http://0.0.0.0:8080", true),
        ("127.0.0.1:8080", "http://127.0.0.1:8081", false),
        ("127.0.0.1:8080", "http://127.0.0.2:8080", false),
        ("0.0.0.0:8080", "http://10.0.0.7:8080", false),
        ("127.0.0.1:80", "http://payments.internal", false),
    ] {
        let text = format!("listen = {listen:?}\n{open}upstream = {upstream:?}\n");
        let config = check(&text).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(config.warnings.len(), usize::from(warned), "{text}");
        if let [problem] = &config.warnings[..] {
            let told = problem.to_string();
            assert!(told.starts_with("f.toml:3:12: upstream"), "{told}");
        }
    }
}
