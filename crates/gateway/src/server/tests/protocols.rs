//! What is spoken: HTTP/1 with its connections kept, HTTP/2, and both over TLS.

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::*;

/// Sends one request over HTTP/2 on `io`, and returns its status and body.
async fn ask_http2<T>(io: T, path: &str) -> (u16, Bytes)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(io));
    let (mut sender, connection) = within(handshake).await.unwrap();
    let driving = tokio::spawn(connection);
    let request = Request::post(format!("http://localhost{path}"))
        .body(Full::new(Bytes::from_static(b"hello")))
        .unwrap();
    let response = within(sender.send_request(request)).await.unwrap();
    let status = response.status().as_u16();
    let body = within(response.into_body().collect()).await.unwrap();
    drop(sender);
    within(driving).await.unwrap().unwrap();
    (status, body.to_bytes())
}

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let world = World::start(Settings::default());
    let mut caller = world.call().await;
    for n in 0..3 {
        let path = format!("/{n}");
        assert_eq!(caller.get(&path).await.hear().await, (200, "took 0".into()));
    }
    let chunked =
        "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    assert_eq!(caller.say(chunked).await.hear().await.1, "took 3");
    let sized = "POST /s HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd";
    assert_eq!(caller.say(sized).await.hear().await.1, "took 4");
    assert!(world.seen().iter().all(|seen| seen.conflict.is_none()));
    assert_eq!(
        world.seen()[0].peer.addr,
        caller.stream.local_addr().unwrap()
    );
    world.end().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let world = World::start(Settings::default());
    let mut caller = world.call().await;
    let chunked = "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nContent-Length: 3\r\n\r\n";
    let sized =
        "POST /s HTTP/1.1\r\nHost: a\r\nContent-Length: 24\r\n\r\nx\r\nContent-Length: 7\r\n\r\n\n";
    caller.say([chunked, sized].concat().repeat(3)).await;
    for _ in 0..3 {
        assert_eq!(caller.hear().await, (200, "took 3".into()));
        assert_eq!(caller.hear().await, (200, "took 24".into()));
    }
    world.end().await;
}

#[tokio::test]
async fn http2_is_told_by_its_preface() {
    let world = World::start(Settings::default());
    let stream = TcpStream::connect(world.addr).await.unwrap();
    let (status, body) = ask_http2(stream, "/two").await;
    assert_eq!((status, &body[..]), (200, &b"took 5"[..]));
    let seen = world.seen();
    assert_eq!(seen[0].line, "POST http://localhost/two");
    assert_eq!(seen[0].conflict, None);
    world.end().await;
}

#[tokio::test]
async fn a_preface_in_pieces_is_put_together() {
    let world = World::start(Settings::default());
    let (near, mut far) = tokio::io::duplex(64 * 1024);
    let mut stream = TcpStream::connect(world.addr).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let relay = tokio::spawn(async move {
        // Every byte of the preface is a segment of its own.
        for _ in 0..24 {
            let byte = far.read_u8().await.unwrap();
            stream.write_u8(byte).await.unwrap();
            tokio::task::yield_now().await;
        }
        let _ = tokio::io::copy_bidirectional(&mut far, &mut stream).await;
    });
    assert_eq!(ask_http2(near, "/slow").await.0, 200);
    within(relay).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_request_that_begins_like_the_preface_is_http1() {
    let world = World::start(Settings::default());
    let mut caller = world.call().await;
    caller.say("PR").await;
    caller.say("OPFIND / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(caller.hear().await.0, 200);
    assert_eq!(world.seen()[0].line, "PROPFIND /");
    world.end().await;
}

#[tokio::test]
async fn a_body_that_is_asked_for_is_waited_for() {
    let world = World::start(Settings::default());
    let mut caller = world.call().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(caller.say(head).await.hear().await.0, 100);
    assert_eq!(caller.say("abc").await.hear().await, (200, "took 3".into()));
    assert_eq!(caller.get("/").await.hear().await.0, 200);
    drop(caller);
    world.end().await;
}

#[tokio::test]
async fn an_upgraded_connection_is_not_read_as_http() {
    let world = World::start(Settings {
        headers: brief(),
        ..Settings::default()
    });
    let mut caller = world.call().await;
    let head = "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    assert_eq!(caller.say(head).await.hear().await.0, 101);
    for said in ["GET", " / HTTP/1.1\r\nContent-Length: 5\r\n", "\r\n\r\n"] {
        // As long as that, the head of a request must not take.
        sleep(brief() * 2).await;
        let mut heard = vec![0; said.len()];
        caller.say(said).await;
        within(caller.stream.read_exact(&mut heard)).await.unwrap();
        assert_eq!(heard, said.as_bytes());
    }
    world.end().await;
}

#[tokio::test]
async fn bytes_right_behind_an_upgrade_are_of_the_other_protocol() {
    let world = World::start(Settings::default());
    let mut caller = world.call().await;
    let head = "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    caller.say(format!("{head}GET / ")).await;
    assert_eq!(caller.hear().await.0, 101);
    caller.say("HTTP/1.1\r\n").await;
    let mut heard = vec![0; "GET / HTTP/1.1\r\n".len()];
    within(caller.stream.read_exact(&mut heard)).await.unwrap();
    assert_eq!(heard, b"GET / HTTP/1.1\r\n");
    world.end().await;
}

#[tokio::test]
async fn a_silent_tunnel_outlives_the_idle_time_and_keeps_its_place() {
    let world = World::start(Settings {
        idle: brief(),
        connections_max: 1,
        ..Settings::default()
    });
    let mut tunnel = world.call().await;
    let head = "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    assert_eq!(tunnel.say(head).await.hear().await.0, 101);
    sleep(brief() * 4).await;
    let mut other = world.call().await;
    let get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let _ = other.stream.write_all(get).await;
    assert_eq!(other.hear_all().await, "", "there is no place for it");
    tunnel.say("x").await;
    assert_eq!(within(tunnel.stream.read_u8()).await.unwrap(), b'x');
    drop(tunnel);
    let served = async {
        loop {
            let mut other = world.call().await;
            let _ = other.stream.write_all(get).await;
            if other.stream.read_u8().await.is_ok() {
                return;
            }
        }
    };
    within(served).await;
    world.end().await;
}

/// A certificate for `localhost`, and the server that shows it.
fn start_tls(settings: Settings) -> (World, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = tempfile::tempdir().unwrap();
    let (cert, key) = (files.path().join("cert.pem"), files.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let config = tls(&cert, &key).unwrap();
    let world = World::start_with(settings, Some(config), FOREVER);
    (world, made.cert.der().clone())
}

#[tokio::test]
async fn tls_offers_both_protocols() {
    let (world, cert) = start_tls(Settings::default());

    let mut stream = dial_tls(&world, &cert, b"h2").await;
    assert_eq!(stream.get_mut().1.alpn_protocol(), Some(&b"h2"[..]));
    assert_eq!(ask_http2(stream, "/two").await.0, 200);

    let mut stream = dial_tls(&world, &cert, b"http/1.1").await;
    let request = b"GET /one HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    within(stream.write_all(request)).await.unwrap();
    let mut all = String::new();
    within(stream.read_to_string(&mut all)).await.unwrap();
    assert!(all.starts_with("HTTP/1.1 200 OK"), "{all}");

    assert!(world.seen().iter().all(|seen| seen.peer.tls));
    world.end().await;
}

#[tokio::test]
async fn a_connection_that_is_silent_behind_its_handshake_is_closed() {
    let (world, cert) = start_tls(Settings {
        first_byte: brief(),
        ..Settings::default()
    });
    for protocol in [&b"h2"[..], b"http/1.1"] {
        let mut stream = dial_tls(&world, &cert, protocol).await;
        let mut all = Vec::new();
        let _ = within(stream.read_to_end(&mut all)).await;
        assert!(!String::from_utf8_lossy(&all).contains("HTTP/1"));
    }
    world.end().await;
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_cut_off() {
    let (world, _) = start_tls(Settings {
        handshake: brief(),
        ..Settings::default()
    });
    let mut caller = world.call().await;
    caller.say([0x16, 0x03, 0x01]).await;
    assert_eq!(caller.hear_all().await, "");
    world.end().await;
}

async fn dial_tls(
    world: &World,
    cert: &CertificateDer<'static>,
    protocol: &[u8],
) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(world.addr).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
    within(connecting).await.unwrap()
}
