//! Smuggling: bytes that two servers could read in two ways never reach the service as two
//! requests, and never as a header that nobody sent.

use std::collections::HashMap;

use futures_util::stream::{self, StreamExt as _};
use onceward_rig::gateway::{Answer, Early, Manners, Origin, Seen, Wire};
use onceward_rig::tally::Tally;

use self::corpus::Case;
use crate::launch;

mod corpus;
mod downgrade;

/// Hung connections end soon, so that a case that the gateway waits for does not take long.
const LIMITS: &str = "[limits]\nheader_timeout = \"2s\"\nbody_grace = \"2s\"\n\
                      idle_timeout = \"2s\"\nfirst_byte_timeout = \"2s\"\n";

/// What came back on the connection of one case.
struct Outcome {
    /// The targets of the answers that the service gave.
    served: Vec<String>,
    /// The statuses of those that the gateway gave.
    refused: Vec<u16>,
}

async fn play(case: &Case, addr: std::net::SocketAddr) -> Outcome {
    let mut outcome = Outcome {
        served: Vec::new(),
        refused: Vec::new(),
    };
    let mut wire = Wire::connect(addr).await.unwrap();
    // It may be closed before all is sent.
    let _ = wire.send(&case.bytes).await;
    while let Ok(answer) = wire.read().await {
        match answer.fields.get("x-target") {
            Some(target) => outcome.served.push(target.to_owned()),
            None => outcome.refused.push(answer.status),
        }
        if answer.closes || !answer.complete {
            break;
        }
    }
    outcome
}

async fn no_desync(manners: Manners) {
    let script = |seen: &Seen| {
        Answer::new(200, "ok")
            .field("X-Target", &seen.target)
            .into()
    };
    let origin = Origin::with(manners, |_| Early::Read, script).await;
    let gateway = launch(&origin).config(LIMITS).start().await;
    let cases = corpus::all();
    assert!(cases.len() >= 150, "{} cases", cases.len());
    let addr = gateway.addr();
    let played = stream::iter(&cases).map(|case| async move { (case, play(case, addr).await) });
    let played: Vec<_> = played.buffer_unordered(32).collect().await;

    let mut seen = HashMap::<String, Vec<Seen>>::new();
    for request in origin.seen() {
        assert!(
            !request.fields.has("x-injected"),
            "an injected header: {request:?}"
        );
        let id = request.target.rsplit('/').next().unwrap_or_default();
        seen.entry(id.to_owned()).or_default().push(request);
    }
    assert_eq!(
        origin.malformed(),
        [""; 0],
        "the service got what is no request"
    );
    let mut wrong = Vec::new();
    for (case, outcome) in &played {
        let seen = seen.remove(&case.id).unwrap_or_default();
        let targets: Vec<_> = seen.iter().map(|seen| seen.target.clone()).collect();
        let smuggled = targets.iter().any(|target| target.starts_with("/smuggled"));
        let agree = targets.iter().all(|target| outcome.served.contains(target))
            && targets.len() == outcome.served.len();
        let refused = outcome
            .refused
            .iter()
            .any(|status| (400..600).contains(status));
        // Whoever refuses a request reads nothing behind it.
        let went_on = refused && targets.iter().any(|target| target.starts_with("/end"));
        if smuggled || !agree || went_on || (case.must_refuse && !targets.is_empty()) {
            let Outcome { served, refused } = outcome;
            let bytes = String::from_utf8_lossy(&case.bytes);
            wrong.push(format!(
                "{}: seen {targets:?}, served {served:?}, refused {refused:?}\n  {bytes:?}",
                case.name
            ));
        }
    }
    assert!(seen.is_empty(), "requests that nobody sent: {seen:?}");
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    let note = format!("towards a service with {manners:?} manners").to_lowercase();
    Tally::record("smuggling", cases.len() as u64, None, 0, &note);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_service_never_sees_a_request_that_was_not_sent() {
    no_desync(Manners::Strict).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lenient_service_never_sees_a_request_that_was_not_sent() {
    no_desync(Manners::Lenient).await;
}

/// Without a gateway the cases do what they are made for.
#[tokio::test(flavor = "multi_thread")]
async fn the_cases_fool_a_service_that_nobody_stands_in_front_of() {
    let script = |seen: &Seen| {
        Answer::new(200, "ok")
            .field("X-Target", &seen.target)
            .into()
    };
    let origin = Origin::with(Manners::Lenient, |_| Early::Read, script).await;
    for case in corpus::all() {
        let mut wire = Wire::connect(origin.addr()).await.unwrap();
        wire.send(&case.bytes).await.unwrap();
        wire.finish().await.unwrap();
        while wire.read().await.is_ok() {}
    }
    let seen = origin.seen();
    let smuggled = seen
        .iter()
        .filter(|seen| seen.target.starts_with("/smuggled"))
        .count();
    let injected = seen
        .iter()
        .filter(|seen| seen.fields.has("x-injected"))
        .count();
    assert!(smuggled >= 100, "{smuggled} of {} requests", seen.len());
    assert!(injected > smuggled, "{injected} headers");
}
