use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn all(text: &str) -> Option<Vec<u8>> {
    canonical(text.as_bytes(), &[], &[])
}

fn pointers(texts: &[&str]) -> Vec<Pointer> {
    texts
        .iter()
        .map(|text| Pointer::parse(text).unwrap())
        .collect()
}

fn without(text: &str, ignore: &[&str]) -> Vec<u8> {
    canonical(text.as_bytes(), &pointers(ignore), &[]).unwrap()
}

fn only(text: &str, only: &[&str]) -> Vec<u8> {
    canonical(text.as_bytes(), &[], &pointers(only)).unwrap()
}

#[test]
fn order_white_space_and_spelling_do_not_count() {
    let one = all(r#"{"a":[1,2.50,"x/y"],"é":{"b":null,"a":true}}"#);
    let two = all(" {\"\\u00e9\" :\t{\"a\":true , \"b\":null},\r\n\"a\":[1e0,25e-1,\"x\\/y\"]} ");
    assert!(one.is_some());
    assert_eq!(one, two);
}

#[test]
fn unlike_values_differ() {
    let texts = [
        "null",
        "true",
        "false",
        "0",
        "1",
        "\"\"",
        "\"1\"",
        "\"null\"",
        "[]",
        "{}",
        "[[]]",
        "[[],[]]",
        "[{}]",
        "[0]",
        "[null]",
        "[1,2]",
        "[2,1]",
        "[12]",
        "[[1],2]",
        "[1,[2]]",
        r#"{"a":1}"#,
        r#"{"a":null}"#,
        r#"{"b":1}"#,
        r#"{"a":{"b":1}}"#,
        r#"{"a":{},"b":1}"#,
        r#"{"":1}"#,
        r#"{"a":"b"}"#,
        r#"["a","b"]"#,
        r#"{"ab":""}"#,
        "9007199254740992",
        "9007199254740993",
    ];
    for (at, one) in texts.iter().enumerate() {
        for two in &texts[..at] {
            assert_ne!(all(one).unwrap(), all(two).unwrap(), "{one} {two}");
        }
    }
}

#[test]
fn what_readers_differ_about_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "[1",
        "[1,]",
        "[,1]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "[1 2]",
        "1 2",
        "nul",
        "nulll",
        "True",
        "'a'",
        "\u{feff}1",
        "1//x",
        "[1}",
        "{\"a\":1]",
        "\u{b}1",
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"b":2,"\u0061":1}"#,
        r#"["\ud800"]"#,
        r#"{"\ud800":1}"#,
        "{1:2}",
        "]",
        ",",
        "-",
    ] {
        assert_eq!(all(text), None, "{text}");
    }
    assert_eq!(canonical(b"\"\xff\"", &[], &[]), None);
}

#[test]
fn members_of_one_name_are_refused_even_where_they_do_not_count() {
    let twice = br#"{"a":1,"b":{"c":1,"c":2},"a":2}"#;
    assert_eq!(canonical(twice, &pointers(&["/a", "/b/c"]), &[]), None);
    assert_eq!(
        canonical(br#"{"a":1,"a":2}"#, &pointers(&["/a"]), &[]),
        None
    );
    assert_eq!(
        canonical(br#"{"a":1,"b":2,"b":2}"#, &[], &pointers(&["/a"])),
        None
    );
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(all(&nested(128)).is_some());
    assert_eq!(all(&nested(129)), None);
    assert_eq!(all(&"[".repeat(1 << 20)), None);
    assert_eq!(all(&"{\"a\":".repeat(1 << 20)), None);
}

#[test]
fn long_containers_compare_by_their_digest() {
    let long = |last: &str| format!("{{\"b\":[{}{last}],\"a\":1}}", "1,".repeat(2_000));
    assert_eq!(all(&long("2")), all(&long("2.0")));
    assert_ne!(all(&long("2")), all(&long("3")));
    assert!(all(&long("2")).unwrap().len() < 100);
}

#[test]
fn ignored_parts_do_not_count_whether_there_or_not() {
    let body = r#"{"a":{"b":1,"c":[1,2,{"d":3}]},"e":4}"#;
    let same = |ignore: &[&str], other: &str| without(body, ignore) == without(other, ignore);
    assert!(same(&["/e"], r#"{"a":{"b":1,"c":[1,2,{"d":3}]}}"#));
    assert!(same(&["/e"], r#"{"e":[9],"a":{"b":1,"c":[1,2,{"d":3}]}}"#));
    assert!(same(
        &["/a/b", "/a/c/2/d"],
        r#"{"e":4,"a":{"b":7,"c":[1,2,{}]}}"#
    ));
    assert!(same(
        &["/a/c/0"],
        r#"{"a":{"b":1,"c":[7,2,{"d":3}]},"e":4}"#
    ));
    assert!(!same(
        &["/a/c/0"],
        r#"{"a":{"b":1,"c":[1,7,{"d":3}]},"e":4}"#
    ));
    assert!(!same(&["/e"], r#"{"a":{"b":2,"c":[1,2,{"d":3}]},"e":4}"#));
    assert!(!same(&["/a/e"], r#"{"a":{"b":1,"c":[1,2,{"d":3}]},"e":5}"#));
    assert!(same(&[""], "7"));
    assert_eq!(
        without(body, &["/missing", "/e/x", "/a/c/9", "/a/c/00"]),
        all(body).unwrap()
    );
}

#[test]
fn only_the_chosen_parts_count() {
    let body = r#"{"a":{"b":1,"c":[1,2]},"e":4}"#;
    let same = |chosen: &[&str], other: &str| only(body, chosen) == only(other, chosen);
    assert!(same(&["/a/b", "/a/c/1"], r#"{"a":{"c":[9,2.0],"b":1e0}}"#));
    assert!(!same(&["/a/b", "/a/c/1"], r#"{"a":{"c":[9,3],"b":1}}"#));
    assert!(!same(&["/a", "/a/b"], r#"{"a":{"b":1}}"#));
    assert!(same(&[""], body));
    assert!(!same(&[""], "{}"));
    assert_eq!(only(body, &["/e", "/a", "/e"]), only(body, &["/a", "/e"]));
}

#[test]
fn a_chosen_part_that_is_missing_is_not_null_and_not_another_one() {
    assert_ne!(only(r#"{"a":null}"#, &["/a"]), only("{}", &["/a"]));
    assert_eq!(only(r#"{"b":1}"#, &["/a"]), only("{}", &["/a"]));
    let both = ["/a", "/b"];
    assert_ne!(only(r#"{"a":1}"#, &both), only(r#"{"b":1}"#, &both));
}

#[test]
fn scalars_are_found_as_written() {
    let pointer = Pointer::parse("/a/1").unwrap();
    let find = |value: &str| {
        let body = format!("{{\"a\": [0, {value} ]}}");
        find(body.as_bytes(), &pointer).map(|found| format!("{found:?}"))
    };
    assert_eq!(find("\"x\\n\"").unwrap(), r#"Text("x\n")"#);
    assert_eq!(find("-0012"), None);
    assert_eq!(find("-0").unwrap(), r#"Integer("-0")"#);
    assert_eq!(find("1E1").unwrap(), "Other");
    assert_eq!(find("null").unwrap(), "Null");
    assert_eq!(find("[1]").unwrap(), "Other");
    assert_eq!(super::find(b"{}", &pointer), Some(Scalar::Absent));
}

/// A document, as serde_json has it.
fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-5..5_i64).prop_map(Value::from),
        "[a-c\\\\\"/\u{1}é😀]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-cé😀]{0,2}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Spells a document anew: `dice` chooses the order of members, the white space, the escapes and
/// the shape of numbers.
fn respell(value: &Value, dice: &mut impl Iterator<Item = u8>, out: &mut String) {
    let mut roll = |sides: u8| dice.next().expect("dice never end") % sides;
    let space = ["", " ", "\n\t", "\r "][usize::from(roll(4))];
    out.push_str(space);
    match value {
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
        Value::Number(number) => match roll(4) {
            0 => out.push_str(&number.to_string()),
            1 => out.push_str(&format!("{number}.00")),
            2 if number.as_i64() != Some(0) => out.push_str(&format!("{number}0e-1")),
            _ => out.push_str(&format!("{number}.0E+00")),
        },
        Value::String(text) => respell_text(text, roll(3), out),
        Value::Array(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                respell(element, dice, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().map(|member| (roll(255), member)).collect();
            members.sort_by_key(|(at, _)| *at);
            out.push('{');
            for (at, (_, (name, value))) in members.into_iter().enumerate() {
                out.push_str(if at > 0 { " ," } else { "" });
                respell_text(name, dice.next().expect("dice never end") % 3, out);
                out.push_str(" :");
                respell(value, dice, out);
            }
            out.push('}');
        }
    }
    out.push_str(space);
}

fn respell_text(text: &str, how: u8, out: &mut String) {
    match how {
        0 => out.push_str(&Value::from(text).to_string()),
        how => {
            out.push('"');
            for unit in text.encode_utf16() {
                match how {
                    1 => out.push_str(&format!("\\u{unit:04x}")),
                    _ => out.push_str(&format!("\\u{unit:04X}")),
                }
            }
            out.push('"');
        }
    }
}

proptest! {
    #[test]
    fn one_value_has_one_spelling(document in document(), seed in any::<[u8; 32]>()) {
        let mut respelled = String::new();
        respell(&document, &mut seed.iter().copied().cycle(), &mut respelled);
        prop_assert!(all(&respelled).is_some(), "{}", respelled);
        prop_assert_eq!(all(&respelled), all(&document.to_string()), "{}", respelled);
    }

    #[test]
    fn two_values_are_equal_just_when_their_spellings_are(one in document(), two in document()) {
        prop_assert_eq!(one == two, all(&one.to_string()) == all(&two.to_string()));
    }

    #[test]
    fn no_change_of_a_part_goes_unseen(document in document(), part in document()) {
        let wrap = |part: &Value| serde_json::json!({"z": [part, 1], "a": document}).to_string();
        prop_assert_eq!(part == document, all(&wrap(&part)) == all(&wrap(&document)));
    }

    #[test]
    fn what_is_accepted_is_what_serde_accepts(text in "[\\[\\]{}\",:0-2.eE+\\-a\\\\u ntrul]{0,12}") {
        // serde_json reads numbers as doubles and refuses those beyond, and keeps the last of two
        // members; apart from that both read the same language.
        if all(&text).is_some() {
            let read = serde_json::from_str::<Value>(&text);
            let beyond = read.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
            prop_assert!(read.is_ok() || beyond, "{}", text);
        }
    }

    #[test]
    fn a_chosen_part_is_the_part_by_itself(document in document()) {
        let wrapped = serde_json::json!({"a": [document]}).to_string();
        let other = serde_json::json!({"b": 1, "a": [document, 2]}).to_string();
        prop_assert_eq!(only(&wrapped, &["/a/0"]), only(&other, &["/a/0"]));
        prop_assert_eq!(without(&wrapped, &["/a/0"]), without("{\"a\":[]}", &[]));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = canonical(&bytes, &pointers(&["/a", "/0/b"]), &[]);
        let _ = find(&bytes, &Pointer::parse("/a").unwrap());
    }
}
