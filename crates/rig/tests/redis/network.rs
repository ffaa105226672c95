//! The proxy before Redis: each fault does what it says, and only that.

use std::time::Duration;

use onceward_rig::proxy::{Fault, Proxy};
use onceward_rig::redis::{Options, RedisServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A server, and a connection to it through a proxy.
async fn setup() -> (RedisServer, Proxy, TcpStream) {
    let server = RedisServer::start(Options::default()).await;
    let proxy = server.proxy();
    let stream = TcpStream::connect(proxy.addr()).await.unwrap();
    (server, proxy, stream)
}

/// Adds one to a number. Returns whether an answer came.
async fn add(stream: &mut TcpStream) -> bool {
    let sent = stream.write_all(b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n").await;
    let mut said = [0; 64];
    sent.is_ok() && matches!(stream.read(&mut said).await, Ok(1..))
}

#[tokio::test]
async fn a_dropped_reply_is_that_of_a_request_that_was_done() {
    let (server, proxy, mut stream) = setup().await;
    assert!(add(&mut stream).await);
    proxy.strike(Fault::ReplyDropped);
    assert!(proxy.awaits());
    assert!(!add(&mut stream).await);
    assert_eq!(server.cli(&["GET", "n"]).await, "2");
    assert_eq!((proxy.struck(), proxy.awaits()), (1, false));
}

#[tokio::test]
async fn a_dropped_request_is_not_done() {
    let (server, proxy, mut stream) = setup().await;
    assert!(add(&mut stream).await);
    proxy.strike(Fault::RequestDropped);
    assert!(!add(&mut stream).await);
    assert_eq!(server.cli(&["GET", "n"]).await, "1");
}

#[tokio::test]
async fn nobody_is_told_of_a_half_open_connection() {
    let (server, proxy, mut stream) = setup().await;
    assert!(add(&mut stream).await);
    proxy.strike(Fault::HalfOpen);
    let soon = Duration::from_millis(300);
    let asked = tokio::time::timeout(soon, add(&mut stream)).await;
    assert!(asked.is_err(), "nothing comes back");
    assert_eq!(server.cli(&["GET", "n"]).await, "1");
}

#[tokio::test]
async fn a_url_through_the_proxy_keeps_its_parameters() {
    let (server, proxy, _) = setup().await;
    let url = proxy.url(&format!("{}?prefix=p", server.url()));
    assert_eq!(url, format!("redis://{}?prefix=p", proxy.addr()));
}
