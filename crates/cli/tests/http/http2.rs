//! HTTP/2 with prior knowledge: the same promise.

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use onceward_rig::gateway::{Answer, Gate, Gateway, Origin, Wire};
use tokio::net::TcpStream;

use crate::frames::{self, frame};
use crate::{ask, launch, pay};

type Client = SendRequest<Full<Bytes>>;

/// One connection.
async fn client(gateway: &Gateway) -> Client {
    let stream = TcpStream::connect(gateway.addr()).await.unwrap();
    let (client, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

fn post(gateway: &Gateway, key: &str) -> Request<Full<Bytes>> {
    let request = Request::post(format!("http://{}/payments", gateway.addr()));
    let request = request.header("Idempotency-Key", key);
    request.body(Full::from("pay 100")).unwrap()
}

async fn send(mut client: Client, request: Request<Full<Bytes>>) -> Response<Bytes> {
    client.ready().await.unwrap();
    let (head, body) = client.send_request(request).await.unwrap().into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_on_another_protocol_is_the_same_operation() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let client = client(&gateway).await;
    let first = send(client.clone(), post(&gateway, "k")).await;
    assert_eq!(first.status(), 201);
    assert!(!first.headers().contains_key("idempotent-replayed"));
    let retry = send(client, post(&gateway, "k")).await;
    assert_eq!(retry.headers()["idempotent-replayed"], "true");
    assert_eq!(retry.body(), first.body());
    let h1 = ask(&gateway, &pay("k")).await;
    assert!(h1.is_replay() && h1.body == first.body()[..]);
    let seen = &origin.seen()[0];
    assert_eq!(seen.fields.get("host"), Some(&*gateway.addr().to_string()));
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicates_on_many_streams_are_executed_once() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let client = client(&gateway).await;
    let answers = join_all((0..90).map(|_| send(client.clone(), post(&gateway, "k")))).await;
    for answer in &answers {
        assert_eq!(
            (answer.status().as_u16(), &answer.body()[..]),
            (201, &b"receipt 0"[..])
        );
    }
    assert_eq!(origin.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_reset_changes_nothing() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| Answer::receipt(3).after(&held).into()).await;
    let gateway = launch(&origin).start().await;
    let client = client(&gateway).await;
    let first = tokio::spawn(send(client.clone(), post(&gateway, "k")));
    origin.wait_for(1).await;
    first.abort();
    let _ = first.await;
    gate.open();
    let retry = send(client, post(&gateway, "k")).await;
    assert_eq!(&retry.body()[..], b"receipt 3");
    assert_eq!(retry.headers()["idempotent-replayed"], "true");
    assert_eq!(origin.count(), 1);
}

/// Streams that are opened and reset as fast as possible. Such a connection is ended, everybody
/// else is served, nothing is executed twice, and the gateway stays small.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_resets_ends_its_connection_and_harms_nobody() {
    let origin = Origin::start().await;
    let gateway = launch(&origin).start().await;
    let mut ended = 0;
    for round in 0..10 {
        let mut bytes = frames::preface();
        for number in 0..2000_u32 {
            let stream = 2 * number + 1;
            let key = format!("flood-{round}-{number}");
            let fields = [("idempotency-key", key.as_bytes())];
            let head = frames::head("/payments", &fields);
            bytes.extend(frame(frames::HEADERS, frames::END_STREAM, stream, &head));
            bytes.extend(frame(frames::RESET, 0, stream, &frames::CANCEL));
        }
        let mut wire = Wire::connect(gateway.addr()).await.unwrap();
        // It may be ended before all is sent.
        let _ = wire.send(&bytes).await;
        while let Some(frame) = frames::read(&mut wire).await {
            if frame.kind == frames::GO_AWAY {
                ended += 1;
                break;
            }
        }
        let answer = ask(&gateway, &pay(&format!("good-{round}"))).await;
        assert_eq!(answer.status, 201);
    }
    assert!(ended > 0, "no connection was told to go away");
    assert!(origin.effects().values().all(|count| *count == 1));
    let (_, most) = gateway.memory();
    assert!(most < 256 << 20, "{most} bytes");
}
