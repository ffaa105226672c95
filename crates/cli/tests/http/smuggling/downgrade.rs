//! HTTP/2 in front, HTTP/1.1 behind: what is harmless in frames must not become framing.

use onceward_rig::gateway::{Answer, Early, Manners, Origin, Seen, Wire};
use onceward_rig::tally::Tally;

use crate::frames::{self, DATA, END_STREAM, HEADERS, frame};
use crate::launch;

/// A hidden request, as a body.
const HIDDEN: &[u8] = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\nX-Injected: 1\r\n\r\n";

/// What a stream got.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Served,
    Refused,
}

/// Sends a request on a connection of its own, and waits until it is answered or refused.
async fn send(addr: std::net::SocketAddr, path: &str, fields: &[(&str, &[u8])]) -> Fate {
    let mut bytes = frames::preface();
    bytes.extend(frame(HEADERS, 0, 1, &frames::head(path, fields)));
    bytes.extend(frame(DATA, END_STREAM, 1, HIDDEN));
    let mut wire = Wire::connect(addr).await.unwrap();
    let _ = wire.send(&bytes).await;
    while let Some(frame) = frames::read(&mut wire).await {
        match frame.kind {
            // 200 is number 8 of the table that everybody has.
            HEADERS if frame.stream == 1 && frame.payload.first() == Some(&0x88) => {
                return Fate::Served;
            }
            HEADERS | frames::RESET if frame.stream == 1 => return Fate::Refused,
            frames::GO_AWAY => return Fate::Refused,
            DATA if frame.flags & END_STREAM != 0 => return Fate::Refused,
            _ => {}
        }
    }
    Fate::Refused
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_http2_never_become_framing_of_http1() {
    let wrong: &[(&str, &[u8])] = &[
        ("transfer-encoding", b"chunked"),
        ("content-length", b"0"),
        ("content-length", b"5"),
        ("content-length", b"9999"),
        ("content-length", b"+59"),
        ("connection", b"keep-alive"),
        ("connection", b"transfer-encoding"),
        ("upgrade", b"h2c"),
        ("keep-alive", b"timeout=5"),
        ("proxy-connection", b"close"),
        ("x", b"a\r\nX-Injected: 1"),
        ("x", b"a\nX-Injected: 1"),
        ("x", b"a\rX-Injected: 1"),
        ("x", b"a\0b"),
        ("x\r\nX-Injected", b"1"),
        ("x: 1\r\nX-Injected", b"1"),
        ("x y", b"1"),
        ("X-Upper", b"1"),
        ("transfer-encoding ", b"chunked"),
        ("te", b"chunked"),
        ("host", b"other.example"),
        (":path", b"/smuggled"),
        (":method", b"GET"),
        (":authority", b"other.example"),
    ];
    for manners in [Manners::Strict, Manners::Lenient] {
        let script = |seen: &Seen| Answer::new(200, &*seen.target).into();
        let origin = Origin::with(manners, |_| Early::Read, script).await;
        let gateway = launch(&origin).start().await;
        let key: (&str, &[u8]) = ("idempotency-key", b"k");
        let mut served = 0;
        for (number, field) in wrong.iter().enumerate() {
            for keyed in [false, true] {
                let path = format!("/c/{number}/{keyed}");
                let fields = [*field, key];
                let fields = &fields[..1 + usize::from(keyed)];
                if send(gateway.addr(), &path, fields).await == Fate::Served {
                    served += 1;
                    assert!(matches!(field.0, "te" | "host"), "served with {field:?}");
                }
            }
        }
        assert_eq!(send(gateway.addr(), "/good", &[]).await, Fate::Served);
        let mut seen = origin.seen();
        // A request without a key is passed on as it comes: one that says to have no body is
        // whole before its body turns out to be there, and goes on without it.
        seen.retain(|request| {
            let emptied = request.target == "/c/1/false" && request.body.is_empty();
            assert!(!emptied || request.fields.get("content-length") == Some("0"));
            !emptied
        });
        assert_eq!(origin.malformed(), [""; 0]);
        assert_eq!(seen.len(), served + 1, "{seen:?}");
        for request in &seen {
            assert!(!request.target.contains("smuggled"), "{request:?}");
            assert!(!request.fields.has("x-injected"), "{request:?}");
            assert_eq!(request.body, HIDDEN);
            assert_eq!(request.fields.all("host").count(), 1, "{request:?}");
        }
        let trials = 2 * wrong.len() as u64;
        Tally::record("smuggling", trials, None, 0, "from HTTP/2");
    }
}
