//! What goes out.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Version};
use http_body::Frame;
use http_body_util::StreamBody;

use super::{Care, OK, Outbound, Peer, Settings, request, text};

/// Returns a request as the upstream sees it, read to `end`.
async fn on_the_wire(peer: &Peer, request: Request<Outbound>, end: &str) -> String {
    let (sent, read) = tokio::join!(peer.send(request, Care::Any), async {
        let mut caller = peer.accept().await;
        let read = caller.read_to(end).await;
        caller.say(OK).await;
        read
    });
    text(sent.unwrap()).await.unwrap();
    // The next one comes on a connection of its own.
    peer.clock.advance(super::MINUTE);
    read
}

fn passed(parts: &[&'static str]) -> Outbound {
    let frames: Vec<_> = parts
        .iter()
        .map(|part| Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(part.as_bytes()))))
        .collect();
    Outbound::passed(StreamBody::new(futures_util::stream::iter(frames)))
}

#[tokio::test]
async fn the_target_is_in_origin_form_below_the_prefix_and_the_version_is_1_1() {
    let peer = Peer::with("http", "/base", Settings::default()).await;
    let mut request = request(Method::GET, "http://caller.example/a?b=c", Outbound::Empty);
    *request.version_mut() = Version::HTTP_2;
    let read = on_the_wire(&peer, request, "\r\n\r\n").await;
    assert_eq!(read, "GET /base/a?b=c HTTP/1.1\r\nhost: upstream\r\n\r\n");
}

#[tokio::test]
async fn an_empty_body_is_said_to_be_empty_where_one_is_expected() {
    let peer = Peer::new().await;
    for method in [Method::POST, Method::PUT, Method::PATCH] {
        for body in [Outbound::Empty, Outbound::buffered("")] {
            let request = request(method.clone(), "/", body);
            let read = on_the_wire(&peer, request, "\r\n\r\n").await;
            assert!(read.contains("content-length: 0\r\n"), "{read}");
        }
    }
    for method in [Method::GET, Method::DELETE, Method::OPTIONS] {
        let request = request(method, "/", Outbound::Empty);
        let read = on_the_wire(&peer, request, "\r\n\r\n").await;
        assert!(!read.contains("content-length"), "{read}");
    }
}

#[tokio::test]
async fn the_length_is_that_of_the_body_whatever_the_request_said() {
    let peer = Peer::new().await;
    let mut request = request(Method::POST, "/", Outbound::buffered("pay"));
    let headers = request.headers_mut();
    headers.insert("content-length", HeaderValue::from_static("50"));
    headers.insert("transfer-encoding", HeaderValue::from_static("chunked"));
    let read = on_the_wire(&peer, request, "\r\n\r\npay").await;
    assert!(read.contains("content-length: 3\r\n"), "{read}");
    assert!(!read.contains("50") && !read.contains("chunked"), "{read}");
}

#[tokio::test]
async fn a_passed_body_is_chunked_or_keeps_its_length() {
    let peer = Peer::new().await;
    for method in [Method::POST, Method::GET] {
        let request = request(method, "/", passed(&["pa", "y"]));
        let read = on_the_wire(&peer, request, "0\r\n\r\n").await;
        assert!(read.contains("transfer-encoding: chunked\r\n"), "{read}");
        assert!(read.contains("2\r\npa\r\n1\r\ny\r\n"), "{read}");
    }
    let body = Outbound::passed(http_body_util::Full::new(Bytes::from_static(b"pay")));
    let read = on_the_wire(&peer, request(Method::POST, "/", body), "\r\n\r\npay").await;
    assert!(read.contains("content-length: 3\r\n"), "{read}");
}

#[tokio::test]
async fn trailers_follow_the_body() {
    let peer = Peer::new().await;
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static("7"));
    let body = Outbound::Buffered {
        data: Bytes::from_static(b"pay"),
        trailers: Some(trailers),
    };
    let request = request(Method::POST, "/", body);
    let read = on_the_wire(&peer, request, "x-sum: 7\r\n\r\n").await;
    assert!(read.contains("transfer-encoding: chunked\r\n"), "{read}");
    assert!(read.contains("trailer: x-sum\r\n"), "{read}");
    assert!(
        read.ends_with("3\r\npay\r\n0\r\nx-sum: 7\r\n\r\n"),
        "{read}"
    );
    assert!(!read.contains("content-length"), "{read}");
}

#[test]
fn a_debugged_body_shows_no_bytes() {
    let body = Outbound::buffered("secret");
    assert_eq!(format!("{body:?}"), "Buffered(6 bytes)");
}
