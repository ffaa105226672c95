use proptest::prelude::*;

use super::*;

/// What version 1 wrote for [`sample`].
const VERSION_1: &str = "01c90003000c00636f6e74656e742d74797065100000006170706c69636174696f6e2f6a\
    736f6e0400766172790100000061040076617279010000006201010005\
    00782d73756d020000002aff";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn map(lines: &[(&'static str, &[u8])]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in lines {
        map.append(*name, HeaderValue::from_bytes(value).unwrap());
    }
    map
}

fn sample() -> Snapshot {
    Snapshot {
        status: StatusCode::CREATED,
        headers: map(&[
            ("content-type", b"application/json"),
            ("vary", b"a"),
            ("vary", b"b"),
        ]),
        trailers: Some(map(&[("x-sum", b"*\xff")])),
    }
}

fn recorded(snapshot: &Snapshot, rules: &Keeping<'_>) -> Bytes {
    record(
        snapshot.status,
        &snapshot.headers,
        snapshot.trailers.as_ref(),
        rules,
    )
}

/// What is left of these headers.
fn kept(headers: &HeaderMap, rules: &Keeping<'_>) -> HeaderMap {
    let head = record(StatusCode::OK, headers, None, rules);
    read(&head).unwrap().headers
}

#[test]
fn version_1_is_read_and_written_as_it_was() {
    assert_eq!(read(&hex(VERSION_1)), Ok(sample()));
    assert_eq!(recorded(&sample(), &Keeping::default()), hex(VERSION_1));
}

#[test]
fn a_field_that_no_answer_keeps_is_refused_where_it_stands() {
    for name in [
        "connection",
        "content-length",
        "date",
        "idempotent-replayed",
        "trailer",
        "transfer-encoding",
    ] {
        let mut line = vec![1, 0, name.len() as u8, 0];
        line.extend(name.bytes());
        line.extend([1, 0, 0, 0, b'5']);
        let status = [VERSION, 200, 0];
        let refused = Err(Unreadable::Invalid { part: "field name" });
        assert_eq!(
            read(&[&status, &line[..], &[0]].concat()),
            refused,
            "{name}"
        );
        let trailer = [&status, &[0, 0, 1], &line[..]].concat();
        assert_eq!(read(&trailer), refused, "{name} as a trailer");
    }
}

#[test]
fn no_trailers_are_not_empty_trailers() {
    for trailers in [None, Some(HeaderMap::new())] {
        let snapshot = Snapshot {
            trailers,
            ..sample()
        };
        let read = read(&recorded(&snapshot, &Keeping::default())).unwrap();
        assert_eq!(read, snapshot);
    }
}

#[test]
fn what_holds_for_one_connection_or_moment_is_not_kept() {
    let lines: &[(&str, &[u8])] = &[
        ("connection", b"x-hop, content-type"),
        ("x-hop", b"1"),
        ("keep-alive", b"1"),
        ("transfer-encoding", b"chunked"),
        ("trailer", b"x-sum"),
        ("upgrade", b"h2c"),
        ("proxy-authenticate", b"Basic"),
        ("authorization", b"secret"),
        ("set-cookie", b"a=b"),
        ("set-cookie2", b"a=b"),
        ("date", b"today"),
        ("age", b"1"),
        ("content-length", b"1"),
        ("idempotent-replayed", b"true"),
        ("idempotency-expires", b"never"),
        ("idempotency-attempt", b"1"),
        ("idempotency-fence", b"f"),
        ("idempotency-outcome", b"done"),
        ("content-type", b"text/plain"),
        ("www-authenticate", b"Bearer"),
        ("x-should-retry", b"true"),
        ("location", b"/1"),
    ];
    let left = map(&lines[lines.len() - 4..]);
    assert_eq!(kept(&map(lines), &Keeping::default()), left);
}

#[test]
fn trailers_are_sifted_like_headers() {
    let trailers = map(&[("set-cookie", b"a=b"), ("x-hop", b"1"), ("x-sum", b"1")]);
    let headers = map(&[("connection", b"x-hop")]);
    let head = record(
        StatusCode::OK,
        &headers,
        Some(&trailers),
        &Keeping::default(),
    );
    let left = read(&head).unwrap().trailers.unwrap();
    assert_eq!(left, map(&[("x-sum", b"1")]));
}

#[test]
fn cookies_are_kept_in_order_where_a_route_says_so() {
    let cookies = map(&[("set-cookie", b"b=1"), ("set-cookie", b"a=2")]);
    let rules = Keeping {
        cookies: true,
        only: None,
    };
    assert_eq!(kept(&cookies, &rules), cookies);
    let values: Vec<_> = kept(&cookies, &rules)
        .into_iter()
        .map(|(_, value)| value)
        .collect();
    assert_eq!(values, ["b=1", "a=2"]);
}

#[test]
fn a_list_narrows_to_itself_and_what_describes_the_body() {
    let headers = map(&[
        ("content-type", b"a/b"),
        ("x-a", b"1"),
        ("x-b", b"2"),
        ("date", b"today"),
    ]);
    let only = [HeaderName::from_static("x-a"), header::DATE];
    let rules = Keeping {
        cookies: false,
        only: Some(&only),
    };
    let wanted = map(&[("content-type", b"a/b"), ("x-a", b"1")]);
    assert_eq!(kept(&headers, &rules), wanted);
}

#[test]
fn other_versions_and_trailing_bytes_are_refused() {
    let good = hex(VERSION_1);
    for found in [0, 2, 255] {
        let mut other = good.clone();
        other[0] = found;
        assert_eq!(read(&other), Err(Unreadable::Version { found }));
    }
    let longer = [&good[..], b"\0"].concat();
    assert_eq!(read(&longer), Err(Unreadable::TooLong));
}

#[test]
fn an_outcome_without_a_head_is_a_plain_success() {
    let plain = read(b"").unwrap();
    assert_eq!((plain.status, plain.headers.len()), (StatusCode::OK, 0));
}

#[test]
fn an_answer_cut_anywhere_is_refused() {
    let good = hex(VERSION_1);
    for len in 1..good.len() {
        assert_eq!(read(&good[..len]), Err(Unreadable::Cut), "{len}");
    }
}

#[test]
fn what_a_hostile_store_slips_in_is_refused() {
    let line = |name: &[u8], value: &[u8]| {
        let mut head = vec![VERSION, 200, 0, 1, 0];
        head.extend((name.len() as u16).to_le_bytes());
        head.extend(name);
        head.extend((value.len() as u32).to_le_bytes());
        head.extend(value);
        head.push(0);
        head
    };
    assert!(read(&line(b"x-a", b"fine")).is_ok());
    for name in [&b""[..], b"x a", b"x:a", b"x\r\nevil"] {
        let part = "field name";
        assert_eq!(read(&line(name, b"")), Err(Unreadable::Invalid { part }));
    }
    for value in [&b"a\r\nSet-Cookie: b"[..], b"a\0", b"\n"] {
        let part = "field value";
        assert_eq!(
            read(&line(b"x-a", value)),
            Err(Unreadable::Invalid { part })
        );
    }
    let part = "status";
    assert_eq!(
        read(&[VERSION, 99, 0, 0, 0, 0]),
        Err(Unreadable::Invalid { part })
    );
    let part = "trailers";
    assert_eq!(
        read(&[VERSION, 200, 0, 0, 0, 2]),
        Err(Unreadable::Invalid { part })
    );
}

#[test]
fn a_count_without_its_lines_allocates_nothing() {
    assert_eq!(
        read(&[VERSION, 200, 0, 0xff, 0xff, 0]),
        Err(Unreadable::Cut)
    );
}

#[test]
fn more_fields_than_a_map_holds_are_refused() {
    let mut head = vec![VERSION, 200, 0, 0xff, 0xff];
    for _ in 0..u16::MAX {
        head.extend(b"\x01\0a\0\0\0\0");
    }
    head.push(0);
    let part = "number of fields";
    assert_eq!(read(&head), Err(Unreadable::Invalid { part }));
}

fn fields() -> impl Strategy<Value = HeaderMap> {
    let line = (
        "x-[a-d]|etag|vary|location",
        proptest::collection::vec(prop_oneof![Just(9), 32..=126_u8, 128..=255_u8], 0..20),
    );
    proptest::collection::vec(line, 0..12).prop_map(|lines| {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_bytes(&value).unwrap());
        }
        map
    })
}

proptest! {
    #[test]
    fn every_answer_comes_back(
        status in 100..=999_u16,
        headers in fields(),
        trailers in proptest::option::of(fields()),
    ) {
        let status = StatusCode::from_u16(status).unwrap();
        let snapshot = Snapshot { status, headers, trailers };
        prop_assert_eq!(read(&recorded(&snapshot, &Keeping::default())), Ok(snapshot));
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }

    #[test]
    fn a_changed_byte_never_panics(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut bytes = hex(VERSION_1);
        let at = at.index(bytes.len());
        bytes[at] = to;
        if let Ok(snapshot) = read(&bytes) {
            prop_assert!(!snapshot.headers.is_empty());
        }
    }
}
