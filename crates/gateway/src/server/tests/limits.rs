//! The limits: nobody keeps a connection by doing nothing, or too little.

use super::*;

#[tokio::test]
async fn a_silent_connection_is_closed_and_a_talking_one_is_not() {
    let world = World::start(Settings {
        first_byte: brief(),
        ..Settings::default()
    });
    let (mut silent, mut talking) = (world.call().await, world.call().await);
    talking.get("/").await.hear().await;
    assert_eq!(silent.hear_all().await, "");
    assert_eq!(talking.get("/").await.hear().await.0, 200);
    world.end().await;
}

#[tokio::test]
async fn a_head_that_does_not_end_is_cut_off() {
    let world = World::start(Settings {
        headers: brief(),
        ..Settings::default()
    });
    // From the start, behind another request, and as the beginning of what may be HTTP/2.
    let mut first = world.call().await;
    first.say("GET / HTTP/1.1\r\nHost: a\r\n").await;
    let mut second = world.call().await;
    second.get("/").await.hear().await;
    second.say("G").await;
    let mut piped = world.call().await;
    piped.say("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /").await;
    piped.hear().await;
    let mut undecided = world.call().await;
    undecided.say("PRI * HTTP/2").await;
    for caller in [&mut first, &mut second, &mut piped, &mut undecided] {
        assert_eq!(caller.hear_all().await, "");
    }
    assert_eq!(world.seen().len(), 2);
    world.end().await;
}

#[tokio::test]
async fn a_head_that_drips_gains_no_time_by_it() {
    let world = World::start(Settings {
        headers: brief(),
        ..Settings::default()
    });
    let mut caller = world.call().await;
    caller.say("GET / HTTP/1.1\r\n").await;
    let dripping = async {
        loop {
            sleep(brief() / 5).await;
            if caller.stream.write_all(b"X: y\r\n").await.is_err() {
                return;
            }
        }
    };
    within(dripping).await;
    assert!(world.seen().is_empty());
    world.end().await;
}

#[tokio::test]
async fn an_idle_connection_outlives_the_time_of_a_head_and_not_its_own() {
    let world = World::start(Settings {
        headers: brief(),
        idle: brief() * 6,
        ..Settings::default()
    });
    let mut begun = world.call().await;
    let mut idle = world.call().await;
    idle.get("/").await.hear().await;
    begun.get("/").await.hear().await;
    begun.say("GET").await;
    let order = Mutex::new(Vec::new());
    let (mut first, mut second) = (begun, idle);
    tokio::join!(
        async {
            first.hear_all().await;
            order.lock().push("begun");
        },
        async {
            second.hear_all().await;
            order.lock().push("idle");
        }
    );
    assert_eq!(*order.lock(), ["begun", "idle"]);
    world.end().await;
}

#[tokio::test]
async fn a_slow_body_ends_with_an_error_and_the_connection() {
    let world = World::start(Settings {
        body_grace: brief(),
        ..Settings::default()
    });
    let mut caller = world.call().await;
    caller
        .say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
        .await;
    assert_eq!(caller.hear().await, (408, "TooSlow".into()));
    assert_eq!(caller.hear_all().await, "");
    assert_eq!(world.seen()[0].body, Err("TooSlow".into()));
    drop(caller);
    world.end().await;
}

#[tokio::test]
async fn a_reader_that_stopped_reading_does_not_keep_its_connection() {
    let world = World::start(Settings {
        idle: brief(),
        connections_max: 1,
        ..Settings::default()
    });
    let mut stuck = world.call().await;
    stuck.get("/large").await;
    world.request().await;
    // The one place is free again only when the stuck connection is gone.
    let next = async {
        loop {
            let mut caller = world.call().await;
            let _ = caller
                .stream
                .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                .await;
            if caller.hear_all().await.starts_with("HTTP/1.1 200") {
                return;
            }
        }
    };
    within(next).await;
    world.end().await;
}

#[tokio::test]
async fn a_connection_over_a_cap_is_closed_at_once() {
    let world = World::start(Settings {
        connections_max: 2,
        connections_per_peer_max: 1,
        ..Settings::default()
    });
    let mut first = world.call().await;
    first.get("/").await.hear().await;
    assert_eq!(world.call().await.hear_all().await, "");
    assert_eq!(first.get("/").await.hear().await.0, 200);
    drop(first);
    world.end().await;
}

#[tokio::test]
async fn two_thousand_silent_connections_do_not_stop_a_good_one() {
    let world = World::start(Settings::default());
    let mut silent = Vec::new();
    for _ in 0..2_000 {
        match TcpStream::connect(world.addr).await {
            Ok(stream) => silent.push(stream),
            // Both ends are in this process, whose open files may be few.
            Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(silent.len() >= 400, "{}", silent.len());
    silent.truncate(silent.len() - 20);
    let mut caller = world.call().await;
    for _ in 0..10 {
        assert_eq!(caller.get("/").await.hear().await.0, 200);
    }
    drop(silent);
    drop(caller);
    world.end().await;
}

#[tokio::test]
async fn a_head_over_the_limits_is_refused() {
    let world = World::start(Settings {
        headers_max: 10,
        ..Settings::default()
    });
    let many = "X: y\r\n".repeat(11);
    let long = format!("X: {}\r\n", "y".repeat(32 * 1024));
    for lines in [many, long] {
        let mut caller = world.call().await;
        caller
            .say(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
            .await;
        let all = caller.hear_all().await;
        assert!(all.starts_with("HTTP/1.1 431"), "{all}");
        assert!(all.contains(r#""code":"head-too-large""#), "{all}");
    }
    assert!(world.seen().is_empty());
    world.end().await;
}

#[tokio::test]
async fn an_http2_request_has_as_many_header_lines_and_no_more() {
    use hyper_util::rt::{TokioExecutor, TokioIo};

    let world = World::start(Settings {
        headers_max: 10,
        ..Settings::default()
    });
    let stream = TcpStream::connect(world.addr).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    for (lines, status) in [(10, 200), (11, 431), (10, 200)] {
        let mut request = Request::get("http://a/");
        for _ in 0..lines {
            request = request.header("x", "y");
        }
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let answer = within(sender.send_request(request)).await.unwrap();
        assert_eq!(answer.status(), status, "{lines} lines");
        let body = within(answer.into_body().collect()).await.unwrap();
        let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
        assert_eq!(text.contains("head-too-large"), status == 431, "{text}");
    }
    assert_eq!(world.seen().len(), 2);
    drop(sender);
    world.end().await;
}

#[tokio::test]
async fn accepting_pauses_only_where_it_would_fail_again() {
    use futures_util::FutureExt as _;

    let paused = |errno: Errno| {
        let error = io::Error::from(errno);
        pause_after(&error).now_or_never().is_none()
    };
    assert!(paused(Errno::MFILE) && paused(Errno::NFILE));
    assert!(!paused(Errno::CONNABORTED) && !paused(Errno::PROTO));
}
