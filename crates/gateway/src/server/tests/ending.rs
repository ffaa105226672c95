//! How things end: answers before the whole request, callers that leave, and shutdown.

use super::*;

#[tokio::test]
async fn a_body_that_was_not_read_is_never_the_next_request() {
    let world = World::start(Settings::default());
    let hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    let len = hidden.len();
    let chunk = format!("{len:x}\r\n{hidden}\r\n0\r\n\r\n");
    let sized = format!("POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n");
    let chunked = "POST /early HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let far = format!(
        "POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        len + 9_000_000
    );
    let cases = [(sized.as_str(), hidden), (chunked, &chunk), (&far, hidden)];
    for (head, body) in cases {
        // At once, and with the body only after the answer.
        let mut caller = world.call().await;
        caller.say(head).await.say(body).await;
        assert!(caller.hear().await.0 == 413);

        let mut caller = world.call().await;
        caller.say(head).await;
        assert!(caller.hear().await.0 == 413);
        let _ = caller.stream.write_all(body.as_bytes()).await;
        assert_eq!(
            caller.hear_all().await,
            "",
            "closed, and nothing more was answered"
        );
    }
    assert!(world.seen().iter().all(|seen| seen.line == "POST /early"));
    assert_eq!(world.seen().len(), 6);
    world.end().await;
}

#[tokio::test]
async fn an_early_answer_reaches_a_caller_that_is_still_sending() {
    let world = World::start(Settings::default());
    let mut caller = world.call().await;
    let body = vec![b'x'; 4 << 20];
    let head = format!(
        "POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    caller.say(head).await.say(body).await;
    let all = caller.hear_all().await;
    assert!(all.starts_with("HTTP/1.1 413"), "{all}");
    assert!(all.contains("connection: close"), "{all}");
    drop(caller);
    world.end().await;
}

#[tokio::test]
async fn a_body_that_was_never_asked_for_is_not_taken_from_the_next_request() {
    let world = World::start(Settings::default());
    let mut caller = world.call().await;
    let head =
        "POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(caller.say(head).await.hear().await.0, 413);
    // The caller may take the refusal for an answer to its head alone, and go on.
    caller.get("/next").await;
    assert_eq!(caller.hear_all().await, "");
    assert_eq!(world.seen().len(), 1);
    drop(caller);
    world.end().await;
}

#[tokio::test]
async fn a_caller_that_sends_no_more_still_gets_its_answer() {
    let world = World::start(Settings::default());
    let mut caller = world.call().await;
    caller.get("/hold").await;
    caller.stream.shutdown().await.unwrap();
    world.request().await;
    world.gate.add_permits(1);
    let all = caller.hear_all().await;
    assert!(all.starts_with("HTTP/1.1 200"), "{all}");
    world.end().await;
}

#[tokio::test]
async fn a_body_that_is_cut_off_is_an_error() {
    let world = World::start(Settings::default());
    for head in [
        "Content-Length: 9\r\n\r\nabc",
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ] {
        let mut caller = world.call().await;
        caller
            .say(format!("POST / HTTP/1.1\r\nHost: a\r\n{head}"))
            .await;
        caller.stream.shutdown().await.unwrap();
        caller.hear_all().await;
    }
    let seen = world.seen();
    assert_eq!(seen.len(), 2);
    assert!(
        seen.iter()
            .all(|seen| seen.body.as_ref().is_err_and(|why| why.starts_with("Cut"))),
        "{seen:?}"
    );
    world.end().await;
}

#[tokio::test]
async fn shutdown_ends_what_is_under_way_and_closes_what_is_idle() {
    for lanes in [0, 2] {
        shut_down_under_way(Lanes::start(lanes).unwrap()).await;
    }
}

async fn shut_down_under_way(lanes: Lanes) {
    let world = World::start_in(lanes, Settings::default(), None, FOREVER);
    let (mut busy, mut idle, mut silent) =
        (world.call().await, world.call().await, world.call().await);
    idle.get("/").await.hear().await;
    busy.get("/hold").await;
    world.request().await;
    world.request().await;

    world.shutdown.cancel();
    assert_eq!(idle.hear_all().await, "");
    assert_eq!(silent.hear_all().await, "");
    assert!(!world.running.is_finished());
    world.gate.add_permits(1);
    // All there is, so the connection has ended. Whether the answer says so beforehand depends on
    // whether its lane had heard of the shutdown by then.
    let all = busy.hear_all().await;
    assert!(all.starts_with("HTTP/1.1 200"), "{all}");
    world.end().await;
}

#[tokio::test]
async fn shutdown_waits_no_longer_than_its_grace() {
    for lanes in [0, 2] {
        let lanes = Lanes::start(lanes).unwrap();
        let world = World::start_in(lanes, Settings::default(), None, brief());
        let mut stuck = world.call().await;
        stuck.get("/hold").await;
        world.request().await;
        let addr = world.addr;
        world.end().await;
        assert_eq!(stuck.hear_all().await, "");
        assert!(TcpStream::connect(addr).await.is_err());
    }
}

#[tokio::test]
async fn dropping_the_server_drops_its_connections() {
    let world = World::start(Settings::default());
    let mut held = world.call().await;
    held.get("/hold").await;
    world.request().await;
    world.running.abort();
    assert_eq!(held.hear_all().await, "");
}

#[tokio::test]
async fn shutdown_ends_http2_streams_that_do_not_end_themselves() {
    use hyper_util::rt::{TokioExecutor, TokioIo};

    let world = World::start_with(Settings::default(), None, brief());
    let stream = TcpStream::connect(world.addr).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://a/hold")
        .body(Full::<Bytes>::default())
        .unwrap();
    let asking = tokio::spawn(sender.send_request(request));
    world.request().await;
    world.end().await;
    assert!(within(asking).await.unwrap().is_err());
}

#[tokio::test]
async fn an_http2_connection_that_asks_nothing_is_closed() {
    use hyper_util::rt::{TokioExecutor, TokioIo};

    let world = World::start(Settings {
        idle: brief() * 2,
        ..Settings::default()
    });
    let stream = TcpStream::connect(world.addr).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let driving = tokio::spawn(connection);
    // A stream that is open keeps it, however long it takes.
    let request = Request::get("http://a/hold")
        .body(Full::<Bytes>::default())
        .unwrap();
    let asking = tokio::spawn(sender.send_request(request));
    world.request().await;
    sleep(brief() * 6).await;
    world.gate.add_permits(1);
    assert_eq!(within(asking).await.unwrap().unwrap().status(), 200);
    let _ = within(driving).await.unwrap();
    world.end().await;
}
