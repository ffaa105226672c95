//! The cases: every way known to us to write a request that ends in two places.

/// Bytes for one connection.
pub(crate) struct Case {
    /// The last segment of every target in it.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// Whether nothing of it may reach the service.
    pub(crate) must_refuse: bool,
}

/// Field lines that say, or almost say, that a body comes in chunks. The flag tells whether a
/// careful server refuses the request for that line alone, or for it beside a length.
const CODINGS: [(&str, bool); 30] = [
    ("Transfer-Encoding: chunked", true),
    ("Transfer-Encoding: Chunked", true),
    ("transfer-encoding:chunked", true),
    ("TRANSFER-ENCODING:\tchunked", true),
    ("Transfer-Encoding:  chunked  ", true),
    ("Transfer-Encoding : chunked", true),
    ("Transfer-Encoding\t: chunked", true),
    ("Transfer-Encoding: xchunked", true),
    ("Transfer-Encoding: chunkedx", true),
    ("Transfer-Encoding: chunked, identity", true),
    ("Transfer-Encoding: identity, chunked", true),
    ("Transfer-Encoding: chunked, chunked", true),
    ("Transfer-Encoding: gzip, chunked", true),
    ("Transfer-Encoding: identity", true),
    ("Transfer-Encoding: \"chunked\"", true),
    ("Transfer-Encoding: chunked;q=1", true),
    ("Transfer-Encoding: ,chunked", true),
    ("Transfer-Encoding: chunked,", true),
    ("Transfer-Encoding:\x0bchunked", true),
    ("Transfer-Encoding: chunked\x0c", true),
    ("Transfer-Encoding:\r\n chunked", true),
    ("X: a\r\n Transfer-Encoding: chunked", true),
    ("X: a\nTransfer-Encoding: chunked", true),
    ("X: a\rTransfer-Encoding: chunked", true),
    ("X: a\0\r\nTransfer-Encoding: chunked", true),
    ("Transfer-Encoding\0: chunked", true),
    (
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        true,
    ),
    (
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        true,
    ),
    ("Transfer_Encoding: chunked", false),
    ("X-Transfer-Encoding: chunked", false),
];

/// Field lines that say a length in a way that can be misread. `N` stands for the length of the
/// body.
const LENGTHS: [&str; 18] = [
    "Content-Length: +N",
    "Content-Length: -N",
    "Content-Length: N, N",
    "Content-Length: N,N",
    "Content-Length: 0, N",
    "Content-Length: N\r\nContent-Length: N",
    "Content-Length: 0\r\nContent-Length: N",
    "Content-Length: N\r\nContent-Length: 0",
    "Content-Length: 0xN",
    "Content-Length: N.0",
    "Content-Length: N 0",
    "Content-Length : N",
    "Content-Length\t: N",
    "Content-Length:\r\n N",
    "Content-Length: \"N\"",
    "X: a\nContent-Length: N",
    "Content-Length: N\rX: a",
    "Content-Length: 99999999999999999999999N",
];

/// Heads that try to put a header, or a second request, where none was sent.
const HEADS: [&str; 20] = [
    "GET /c/ID HTTP/1.1\r\nHost: a\r\nX: b\rX-Injected: 1\r\n\r\n",
    "GET /c/ID HTTP/1.1\r\nHost: a\r\nX: b\nX-Injected: 1\r\n\r\n",
    "GET /c/ID HTTP/1.1\r\nHost: a\r\nX: b\0X-Injected: 1\r\n\r\n",
    "GET /c/ID HTTP/1.1\r\nHost: a\r\nX: b\r\n X-Injected: 1\r\n\r\n",
    "GET /c/ID HTTP/1.1\r\n X-Injected: 1\r\nHost: a\r\n\r\n",
    "GET /c/ID HTTP/1.1\nHost: a\nX-Injected: 1\n\n",
    "GET /c/ID\rX-Injected:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /c/ID\nX-Injected:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /c/ID HTTP/1.1 X-Injected: 1\r\nHost: a\r\n\r\n",
    "GET /c/ID HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\nX-Injected: 1\r\n\r\n",
    "GET /c/ID HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "GET http://b/c/ID HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /c/ID HTTP/1.1\r\nHost : a\r\nX: b\r\n\r\n",
    "GET /c/ID HTTP/1.1\r\nX: no host\r\n\r\n",
    "GET /c/ID HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "GET /c/ID HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
    "GET /c/ID HTTP/1.1\r\nHost: a\r\n: no name\r\n\r\n",
    "GET /c/ID HTTP/1.1\r\nHost: a\r\nX Y: z\r\n\r\n",
    "GET /c/ID HTTP/9.9\r\nHost: a\r\n\r\n",
    "CONNECT /c/ID HTTP/1.1\r\nHost: a\r\n\r\n",
];

/// Bodies in chunks that can be misread.
const CHUNKS: [&str; 16] = [
    "+0\r\n\r\n",
    "0x0\r\n\r\n",
    "-1\r\n\r\n",
    " 0\r\n\r\n",
    "0 x\r\n\r\n",
    "0\n\n",
    "0\r\r\n\n",
    "\r\n0\r\n\r\n",
    "g\r\n\r\n",
    "ffffffffffffffffff\r\n\r\n",
    "100000000000000000\r\n\r\n",
    "1\r\nab\r\n0\r\n\r\n",
    "2\r\na\r\n0\r\n\r\n",
    "1;x\ny\r\na\r\n0\r\n\r\n",
    "1;x\ry\r\na\r\n0\r\n\r\n",
    "0\r\nX: a\nX-Injected: 1\r\n\r\n",
];

/// Every case, each with an id of its own.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Cases(Vec::new());
    for key in ["", "Idempotency-Key: KEY\r\n"] {
        cases.codings_beside_lengths(key);
        cases.odd_lengths(key);
        cases.odd_chunks(key);
        cases.early_refusals(key);
    }
    for head in HEADS {
        cases.add("a head", true, |id| head.replace("ID", id) + &end(id));
    }
    cases.0
}

/// A request that a misreading would find behind another.
fn smuggled(id: &str) -> String {
    format!("POST /smuggled/{id} HTTP/1.1\r\nHost: a\r\nX-Injected: 1\r\nContent-Length: 0\r\n\r\n")
}

/// The last request of a connection, which is sent in earnest.
fn end(id: &str) -> String {
    format!("GET /end/{id} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
}

struct Cases(Vec<Case>);

// === impl Cases ===

impl Cases {
    fn add(&mut self, name: &str, must_refuse: bool, bytes: impl FnOnce(&str) -> String) {
        let id = format!("{}", self.0.len());
        let bytes = bytes(&id).replace("KEY", &format!("key-{id}")).into_bytes();
        self.0.push(Case {
            name: format!("{name} #{id}"),
            id,
            bytes,
            must_refuse,
        });
    }

    /// A body that ends at once in chunks, and behind the hidden request by its length.
    fn codings_beside_lengths(&mut self, key: &str) {
        for (coding, must_refuse) in CODINGS {
            for length_first in [true, false] {
                let name = format!("{coding:?} beside a length");
                self.add(&name, must_refuse, |id| {
                    let body = format!("0\r\n\r\n{}", smuggled(id));
                    let length = format!("Content-Length: {}", body.len());
                    let (one, two) = match length_first {
                        true => (&*length, coding),
                        false => (coding, &*length),
                    };
                    let head =
                        format!("POST /c/{id} HTTP/1.1\r\nHost: a\r\n{key}{one}\r\n{two}\r\n");
                    format!("{head}\r\n{body}{}", end(id))
                });
            }
        }
        self.add("chunks in HTTP/1.0", true, |id| {
            let head = format!("POST /c/{id} HTTP/1.0\r\nHost: a\r\n{key}");
            let framing = "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n";
            format!("{head}{framing}0\r\n\r\n{}", end(id))
        });
    }

    fn odd_lengths(&mut self, key: &str) {
        for length in LENGTHS {
            self.add(&format!("{length:?}"), true, |id| {
                let body = smuggled(id);
                let length = length.replace('N', &body.len().to_string());
                let head = format!("POST /c/{id} HTTP/1.1\r\nHost: a\r\n{key}{length}\r\n\r\n");
                format!("{head}{body}{}", end(id))
            });
        }
    }

    fn odd_chunks(&mut self, key: &str) {
        for chunks in CHUNKS {
            // Without a key the head may be on its way before the body turns out to be bad; what
            // the service then has is a request without an end.
            self.add(&format!("chunks {chunks:?}"), false, |id| {
                let head = format!("POST /c/{id} HTTP/1.1\r\nHost: a\r\n{key}");
                let framing = "Transfer-Encoding: chunked\r\n\r\n";
                format!("{head}{framing}{chunks}{}", end(id))
            });
        }
    }

    /// A refusal that comes before the body was read must not take the body for a request.
    fn early_refusals(&mut self, key: &str) {
        let reasons = [
            "Idempotency-Key: a,b\r\n",
            "Idempotency-Key: one\r\nIdempotency-Key: two\r\n",
            "Idempotency-Key: \"open\r\n",
            "Idempotency-Key: up\r\nUpgrade: x\r\nConnection: upgrade\r\n",
        ];
        for reason in reasons {
            self.add("an early refusal", false, |id| {
                let body = smuggled(id);
                let length = format!("Content-Length: {}\r\n", body.len());
                let extra = key.replace("Idempotency-Key", "X-Other");
                format!("POST /c/{id} HTTP/1.1\r\nHost: a\r\n{extra}{reason}{length}\r\n{body}")
            });
        }
    }
}
