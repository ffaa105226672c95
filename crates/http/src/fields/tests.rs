use http::Request;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json; charset=utf-8";

fn fields(names: &[&str]) -> Fields {
    Fields::parse(names).unwrap()
}

fn parts(media: &str, path: &[(&str, &str)]) -> Parts {
    let mut request = Request::post("/pay");
    if !media.is_empty() {
        request = request.header("content-type", media);
    }
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    parts
        .extensions
        .insert(PathFields::from_iter(path.iter().copied()));
    parts
}

fn digest(names: &[&str], media: &str, body: &str) -> Result<FieldsDigest, MissingFields> {
    fields(names).digest(&parts(media, &[]), body.as_bytes())
}

fn json(names: &[&str], body: &str) -> FieldsDigest {
    digest(names, JSON, body).unwrap()
}

fn absent(names: &[&str]) -> Result<FieldsDigest, MissingFields> {
    let names = names.iter().map(|name| Box::from(*name)).collect();
    Err(MissingFields::Absent(names))
}

#[test]
fn names_are_pointers_or_stand_in_braces() {
    for name in [
        "/order_id",
        "/customer/id",
        "/",
        "/a~1b",
        "{id}",
        "{order-id_2}",
    ] {
        assert_eq!(Field::parse(name).unwrap().to_string(), name);
    }
    for (name, why) in [
        ("", InvalidField::Empty),
        ("order_id", InvalidField::Unknown),
        ("$.order_id", InvalidField::Unknown),
        ("/a~", InvalidField::Pointer),
        ("{", InvalidField::Braces),
        ("{}", InvalidField::Braces),
        ("{id", InvalidField::Braces),
        ("{a b}", InvalidField::Braces),
        ("{*rest}", InvalidField::Braces),
        ("{a}{b}", InvalidField::Braces),
    ] {
        assert_eq!(name.parse::<Field>(), Err(why.clone()), "{name}");
        assert_eq!(Fields::parse([name]), Err(why), "{name}");
    }
}

#[test]
fn a_list_names_each_field_once_and_at_least_one() {
    assert_eq!(Fields::parse([""; 0]), Err(InvalidField::None));
    let twice = Fields::parse(["/a", "{b}", "/c", "{b}"]);
    assert_eq!(twice, Err(InvalidField::Twice("{b}".into())));
    let all = fields(&["{z}", "/b", "{a}", "/a"]);
    assert_eq!(all.to_string(), "{z}, /b, {a} and /a");
    assert_eq!(all.path_names().collect::<Vec<_>>(), ["z", "a"]);
    assert_eq!(all.iter().len(), 4);
    assert_eq!(fields(&["/a"]).to_string(), "/a");
}

#[test]
fn order_of_members_and_spelling_do_not_count() {
    let one = json(
        &["/id", "/of/a"],
        r#"{"id":100,"of":{"a":[1,{"x":1,"y":2}]}}"#,
    );
    for same in [
        r#"{"of":{"b":1,"a":[1.0,{"y":2e0,"x":1}]},"id":1e2,"other":7}"#,
        "{ \"i\\u0064\" : 100.00, \"of\": {\"a\": [ 1, {\"x\":1,\"y\":2} ]} }",
    ] {
        assert_eq!(json(&["/id", "/of/a"], same), one, "{same}");
    }
}

#[test]
fn unlike_values_and_kinds_differ() {
    let values = [
        "1",
        "\"01\"",
        "\"1.0\"",
        "\" 1\"",
        "\"+1\"",
        "\"1e0\"",
        "1.5",
        "\"1.5\"",
        "\"-\"",
        "-1",
        "true",
        "false",
        "\"true\"",
        "\"\"",
        "[]",
        "{}",
        "[1]",
        "[[1]]",
        "[\"1\"]",
        "{\"a\":1}",
        "{\"a\":\"1\"}",
        "9007199254740992",
        "9007199254740993",
    ];
    let of = |value: &str| json(&["/v"], &format!("{{\"v\":{value}}}"));
    for (at, one) in values.iter().enumerate() {
        for two in &values[..at] {
            assert_ne!(of(one), of(two), "{one} {two}");
        }
    }
    let body = r#"{"a":"x","b":"y"}"#;
    assert_ne!(json(&["/a"], body), json(&["/b"], body));
    assert_ne!(json(&["/a"], body), json(&["/a", "/b"], body));
}

#[test]
fn values_are_compared_one_by_one_in_the_order_of_the_names() {
    let body = r#"{"a":"x","b":"y"}"#;
    assert_ne!(json(&["/a", "/b"], body), json(&["/b", "/a"], body));
    let swapped = r#"{"b":"x","a":"y"}"#;
    assert_eq!(json(&["/a", "/b"], body), json(&["/b", "/a"], swapped));
}

#[test]
fn one_thing_is_the_same_however_a_message_calls_and_spells_it() {
    let one = json(&["/order_id"], r#"{"order_id": 42, "note": "again"}"#);
    let in_path = fields(&["{order}"]).digest(&parts(JSON, &[("order", "42")]), b"");
    assert_eq!(in_path, Ok(one));
    assert_eq!(digest(&["/order"], FORM, "order=42"), Ok(one));
    for same in [r#"{"id":"42"}"#, r#"{"id":42.0}"#, r#"{"id":4.2e1}"#] {
        assert_eq!(json(&["/id"], same), one, "{same}");
    }
    let large = |id: &str| json(&["/id"], &format!(r#"{{"id":{id}}}"#));
    assert_eq!(large("9007199254740993"), large("\"9007199254740993\""));
    assert_ne!(large("9007199254740992"), large("\"9007199254740993\""));
    assert_eq!(large("-7"), large("\"-7\""));
}

#[test]
fn values_do_not_run_into_each_other() {
    let one = json(&["/a", "/b"], r#"{"a":"xb","b":"y"}"#);
    assert_ne!(one, json(&["/a", "/b"], r#"{"a":"x","b":"by"}"#));
}

#[test]
fn fields_of_a_form_are_texts() {
    let one = digest(&["/id", "/a~1b"], FORM, "x=1&id=a+b&a%2Fb=7").unwrap();
    let two = digest(&["/id", "/a~1b"], FORM, "a/b=7&id=%61%20b").unwrap();
    assert_eq!(one, two);
    assert_eq!(one, json(&["/id", "/a~1b"], r#"{"id":"a b","a/b":"7"}"#));
    assert_eq!(one, json(&["/id", "/a~1b"], r#"{"id":"a b","a/b":7}"#));
    assert_ne!(one, json(&["/id", "/a~1b"], r#"{"id":"a b","a/b":"07"}"#));
}

#[test]
fn parts_of_the_path_are_texts() {
    let of = |id: &str, status: &str| {
        let parts = parts(JSON, &[("other", "1"), ("id", id)]);
        let body = format!("{{\"status\":{status:?}}}");
        fields(&["/status", "{id}"])
            .digest(&parts, body.as_bytes())
            .unwrap()
    };
    assert_eq!(of("7", "paid"), of("7", "paid"));
    assert_ne!(of("7", "paid"), of("8", "paid"));
    assert_ne!(of("7", "paid"), of("7", "void"));
    let none = fields(&["{id}"]).digest(&parts("", &[]), b"");
    assert_eq!(none, absent(&["{id}"]));
}

#[test]
fn every_field_that_is_missing_is_named() {
    let names = ["/a", "/b/c", "/d/0", "/e"];
    let told = digest(&names, JSON, r#"{"a":null,"b":"c","d":[],"e":"secret"}"#);
    assert_eq!(told, absent(&["/a", "/b/c", "/d/0"]));
    let told = told.unwrap_err().to_string();
    assert_eq!(told, "the request has no /a and no /b/c and no /d/0");
    assert_eq!(digest(&["/a"], JSON, ""), absent(&["/a"]));
    assert_eq!(digest(&["/a"], "", ""), absent(&["/a"]));
    assert_eq!(
        digest(&["/a/b", "/c"], FORM, "a=1&a/b=2"),
        absent(&["/a/b", "/c"])
    );
    assert_eq!(digest(&["/a"], "text/plain", "a=1"), absent(&["/a"]));
    assert!(digest(&["/a"], "text/plain", "{\"a\":1}").is_ok());
}

#[test]
fn a_body_with_two_readings_has_no_fields() {
    for body in [
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"b":{"c":1,"c":1}}"#,
        r#"{"a":1"#,
        r#"{"a":1} {"a":2}"#,
        "a=1",
        r#"{"a":"\ud800"}"#,
    ] {
        assert_eq!(
            digest(&["/a"], JSON, body),
            Err(MissingFields::NotJson),
            "{body}"
        );
        assert_eq!(
            digest(&["/a"], "", body),
            Err(MissingFields::NotJson),
            "{body}"
        );
    }
    let bytes = fields(&["/a"]).digest(&parts(JSON, &[]), b"{\"a\":\"\xff\"}");
    assert_eq!(bytes, Err(MissingFields::NotJson));
    for form in ["a=1&a=1", "a=1&b=2&a=2", "a=%FF"] {
        let told = digest(&["/a"], FORM, form);
        assert_eq!(told, Err(MissingFields::NotOne("/a".into())), "{form}");
    }
}

#[test]
fn texts_and_integers_can_be_compared_with_a_key() {
    let of = |name: &str, media: &str, body: &str| {
        let parts = parts(media, &[("id", "p7")]);
        let text = Field::parse(name)
            .unwrap()
            .text(&parts, body.as_bytes())?
            .map(Cow::into_owned);
        Ok::<_, MissingFields>(text)
    };
    let some = |text: &str| Ok(Some(text.to_owned()));
    assert_eq!(of("/a", JSON, r#"{"a":"x\u0031"}"#), some("x1"));
    assert_eq!(of("/a", JSON, r#"{"a":42}"#), some("42"));
    assert_eq!(of("/a", FORM, "a=x+1"), some("x 1"));
    assert_eq!(of("{id}", "", ""), some("p7"));
    for other in ["1.0", "1e2", "true", "[]", "{}"] {
        assert_eq!(of("/a", JSON, &format!("{{\"a\":{other}}}")), Ok(None));
    }
    let missing = |name: &str| Err(MissingFields::Absent(vec![name.into()]));
    assert_eq!(of("/a", JSON, r#"{"a":null}"#), missing("/a"));
    assert_eq!(of("/a", FORM, "b=1"), missing("/a"));
    assert_eq!(of("{no}", "", ""), missing("{no}"));
    assert_eq!(
        of("/a", JSON, r#"{"a":1,"a":1}"#),
        Err(MissingFields::NotJson)
    );
}

/// A value that is not `null`, of little depth.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-c\"\\\\é]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..3)
                .prop_map(|members| Value::from(Map::from_iter(members))),
        ]
    })
}

/// Writes a document with its members in the other order, wide, and numbers with an exponent.
fn respelled(value: &Value) -> String {
    match value {
        Value::Number(number) => format!("{number}.00e0"),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(respelled).collect();
            format!("[ {} ]", items.join(" ,\n"))
        }
        Value::Object(members) => {
            let members: Vec<_> = members
                .iter()
                .rev()
                .map(|(name, value)| format!("{} : {}", Value::from(&**name), respelled(value)))
                .collect();
            format!("{{ {}\t}}", members.join(" , "))
        }
        other => other.to_string(),
    }
}

proptest! {
    /// The digest is equal exactly where both values are.
    #[test]
    fn digests_are_equal_where_values_are(
        one in (value(), value()),
        two in (value(), value()),
        noise in value(),
    ) {
        let of = |body: &str| json(&["/a", "/b"], body);
        let plain = |(a, b): &(Value, Value)| json!({"a": a, "b": b});
        let first = of(&plain(&one).to_string());
        let noisy = json!({"0": noise, "b": one.1, "a": one.0, "z": noise});
        prop_assert_eq!(of(&respelled(&plain(&one))), first);
        prop_assert_eq!(of(&respelled(&noisy)), first);
        prop_assert_eq!(of(&plain(&two).to_string()) == first, one == two);
    }

    /// A text is a text in JSON and in a form, and no text in a path is another one.
    #[test]
    fn texts_are_texts_wherever_they_stand(text in "\\PC{0,12}") {
        prop_assume!(!text.contains(char::REPLACEMENT_CHARACTER));
        let form: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("a", &text)
            .finish();
        let wanted = json(&["/a"], &json!({"a": text}).to_string());
        prop_assert_eq!(digest(&["/a"], FORM, &form).unwrap(), wanted);
        let of = |text: &str| {
            let parts = parts("", &[("a", text)]);
            fields(&["{a}"]).digest(&parts, b"").unwrap()
        };
        let longer = format!("{text}x");
        prop_assert_ne!(of(&longer), of(&text));
    }
}

/// Records of derived keys outlive the program that made them.
#[test]
fn digests_stay_what_they_are() {
    let body = r#"{"payment_id":100,"status":"settled","of":{"b":[true],"a":null}}"#;
    let parts = parts(JSON, &[("account", "7")]);
    let all = fields(&["/payment_id", "/status", "/of", "{account}"]);
    let digest = all.digest(&parts, body.as_bytes()).unwrap();
    assert_eq!(
        digest.to_string(),
        "68349218a0e700ade35e77b3d13c075bf8281bb8e38a4a2e8f102adba939f9f0"
    );
}
