//! What comes in.

use http::{HeaderValue, Method, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Care, Inbound, OK, Outbound, Peer, Upstream, post, request, text};

#[tokio::test]
async fn an_answer_without_length_is_read_to_the_end_of_its_connection() {
    let peer = Peer::new().await;
    let (sent, mut caller) = tokio::join!(peer.post(Care::Any), async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller.say("HTTP/1.1 200 OK\r\n\r\no").await;
        caller
    });
    let mut body = sent.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "o");
    caller.say("k").await;
    drop(caller);
    assert_eq!(body.collect().await.unwrap().to_bytes(), "k");
    assert_eq!(peer.at_rest(), 0);
}

#[tokio::test]
async fn a_chunked_answer_leaves_the_connection_usable() {
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let peer = Peer::new().await;
    let mut caller = peer.answered_with(answer).await;
    peer.expect_reuse(&mut caller, Care::Fresh).await;
}

#[tokio::test]
async fn a_large_answer_arrives_whole() {
    const SIZE: usize = 3 << 20;
    let peer = Peer::new().await;
    let (answer, ()) = tokio::join!(
        async { text(peer.post(Care::Any).await.unwrap()).await.unwrap() },
        async {
            let mut caller = peer.accept().await;
            caller.request().await;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n");
            caller.say(&head).await;
            caller.say(&"x".repeat(SIZE)).await;
        }
    );
    assert_eq!(answer.len(), SIZE);
    assert_eq!(peer.at_rest(), 1);
}

#[tokio::test]
async fn an_answer_without_body_gives_its_connection_back_at_once() {
    for (method, answer) in [
        (
            Method::HEAD,
            "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n",
        ),
        (Method::GET, "HTTP/1.1 204 No Content\r\n\r\n"),
        (
            Method::GET,
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 50\r\n\r\n",
        ),
        (Method::GET, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    ] {
        let peer = Peer::new().await;
        let sending = peer.send(request(method, "/", Outbound::Empty), Care::Any);
        let (sent, mut caller) = tokio::join!(sending, async {
            let mut caller = peer.accept().await;
            caller.read_to("\r\n\r\n").await;
            caller.say(answer).await;
            caller
        });
        assert!(sent.unwrap().body().is_end_stream());
        peer.expect_reuse(&mut caller, Care::Fresh).await;
    }
}

#[tokio::test]
async fn informational_answers_are_passed_over() {
    let peer = Peer::new().await;
    let early = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let mut caller = peer.answered_with(&format!("{early}{OK}")).await;
    peer.expect_reuse(&mut caller, Care::Any).await;
}

#[tokio::test]
async fn trailers_follow_the_body_and_leave_the_connection_usable() {
    let peer = Peer::new().await;
    let (sent, mut caller) = tokio::join!(peer.post(Care::Any), async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller
            .say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum: 7\r\n\r\n")
            .await;
        caller
    });
    let mut body = sent.unwrap().into_body();
    let data = body.frame().await.unwrap().unwrap();
    assert_eq!(data.into_data().unwrap(), "ok");
    let trailers = body.frame().await.unwrap().unwrap();
    assert_eq!(trailers.into_trailers().unwrap()["x-sum"], "7");
    // Readers stop here, for nothing follows trailers.
    drop(body);
    peer.expect_reuse(&mut caller, Care::Any).await;
}

#[tokio::test]
async fn an_upgraded_connection_carries_another_protocol() {
    let peer = Peer::new().await;
    let mut request = request(Method::GET, "/chat", Outbound::Empty);
    let headers = request.headers_mut();
    headers.insert("connection", HeaderValue::from_static("upgrade"));
    headers.insert("upgrade", HeaderValue::from_static("echo"));
    let (sent, mut caller) = tokio::join!(peer.send(request, Care::Any), async {
        let mut caller = peer.accept().await;
        caller.read_to("\r\n\r\n").await;
        caller
            .say("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nhello")
            .await;
        caller
    });
    let answer = sent.unwrap();
    assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(answer.headers()["upgrade"], "echo");
    let mut upgraded = answer.into_body().take_upgraded().unwrap();

    let ((), mut heard) = tokio::join!(
        async {
            let said = caller.read_to("bye").await;
            caller.say(&said).await;
        },
        async {
            upgraded.write_all(b"bye").await.unwrap();
            let mut heard = [0; 8];
            upgraded.read_exact(&mut heard).await.unwrap();
            heard.to_vec()
        }
    );
    assert_eq!(heard, b"hellobye");
    drop(upgraded);
    heard = caller.rest().await;
    assert_eq!(heard, b"");
    assert_eq!(peer.at_rest(), 0);
}

#[tokio::test]
async fn a_refused_upgrade_is_an_answer_like_any_other() {
    let peer = Peer::new().await;
    let mut asking = post("pay");
    asking
        .headers_mut()
        .insert("upgrade", HeaderValue::from_static("echo"));
    let (sent, mut caller) = tokio::join!(peer.send(asking, Care::Any), async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller.say(OK).await;
        caller
    });
    assert_eq!(text(sent.unwrap()).await.unwrap(), "ok");
    peer.expect_reuse(&mut caller, Care::Any).await;
}

#[tokio::test]
async fn an_answer_may_be_read_in_another_task() {
    fn is_send<T: Send + 'static>() {}
    is_send::<Inbound>();
    is_send::<Upstream>();
    let peer = Peer::new().await;
    let (sent, mut caller) = tokio::join!(peer.post(Care::Any), async {
        let mut caller = peer.accept().await;
        caller.request().await;
        caller
            .say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n")
            .await;
        caller
    });
    let reading = tokio::spawn(async { text(sent.unwrap()).await.unwrap() });
    caller.say("ok").await;
    assert_eq!(reading.await.unwrap(), "ok");
    peer.expect_reuse(&mut caller, Care::Any).await;
}
