//! Pieces: a connection's bytes are the same requests wherever they are cut.

use http::HeaderMap;
use proptest::prelude::*;

use super::super::rehearsal::{Heard, rehearse};
use super::*;

/// What requests, and things that are none, are made of.
const PHRASES: [&str; 24] = [
    "GET / HTTP/1.1\r\n",
    "POST /a HTTP/1.1\r\n",
    "PUT /b HTTP/1.0\r\n",
    "Host: a\r\n",
    "Host: a\r\n\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked\r\n\r\n",
    "Expect: 100-continue\r\n",
    "Connection: keep-alive\r\n",
    "Connection: close\r\n",
    "\r\n",
    "\r\n",
    "\n",
    "\r",
    "hello",
    "5\r\nhello\r\n",
    "5;a=b\r\nhello\r\n",
    "0\r\n\r\n",
    "0\r\n",
    "X: y\r\n",
    "X: y\n",
    " : ",
];

/// Requests that are in order, which everything else is mixed with.
const WHOLE: [&str; 6] = [
    "GET /g HTTP/1.1\r\nHost: a\r\nX-Y: z\r\n\r\n",
    "POST /s HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x\r\nllo\r\n0\r\n\r\n",
    "POST /t HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n",
    "POST /e HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab",
    "GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
];

type Told = (
    String,
    HeaderMap,
    Option<Conflict>,
    Option<(Bytes, Option<HeaderMap>)>,
);

fn told(heard: Heard) -> Told {
    let parts = heard.parts;
    let line = format!("{} {} {:?}", parts.method, parts.uri, parts.version);
    (line, parts.headers, heard.conflict, heard.body)
}

fn hear(sent: &[u8], steps: &[usize]) -> Vec<Told> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let mut rest = Bytes::copy_from_slice(sent);
    let mut pieces = Vec::new();
    for step in steps.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        pieces.push(rest.split_to((*step).min(rest.len())));
    }
    let heard = runtime.block_on(rehearse(pieces));
    heard.into_iter().map(told).collect()
}

#[test]
fn requests_in_order_are_found_whatever_the_steps() {
    let sent = WHOLE.concat().repeat(2);
    let whole = hear(sent.as_bytes(), &[usize::MAX]);
    assert_eq!(whole.len(), 2 * WHOLE.len());
    assert!(
        whole
            .iter()
            .all(|told| told.2.is_none() && told.3.is_some())
    );
    for step in 1..100 {
        assert_eq!(hear(sent.as_bytes(), &[step]), whole, "in steps of {step}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_same_bytes_are_the_same_requests(
        texts in proptest::collection::vec(
            prop_oneof![
                2 => proptest::sample::select(WHOLE.as_slice()).prop_map(str::as_bytes),
                3 => proptest::sample::select(PHRASES.as_slice()).prop_map(str::as_bytes),
            ],
            1..12,
        ),
        strays in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..2),
        steps in proptest::collection::vec(1_usize..50, 1..6),
    ) {
        let mut sent = texts.concat();
        for (at, byte) in strays {
            let at = at.index(sent.len());
            sent[at] = byte;
        }
        prop_assert_eq!(hear(&sent, &steps), hear(&sent, &[usize::MAX]));
    }
}
