//! P5: no byte crosses from one caller to another.

use jsonwebtoken::{EncodingKey, Header};
use onceward_rig::gateway::{Answer, Ask, Launch, Origin, Received, Seen};
use serde_json::json;

use crate::{ask, expect_problem, expect_replay, launch, pay};

/// Long after anything here.
const LATE: u64 = 4_000_000_000;

const SECRET: &str = "a secret that is long enough for a test";

/// A service that answers with who asked.
async fn origin() -> Origin {
    Origin::scripted(|seen: &Seen| {
        let who = seen
            .fields
            .get("authorization")
            .or(seen.fields.get("x-api-key"));
        let body = String::from_utf8_lossy(&seen.body);
        Answer::new(201, format!("for {who:?}: {body}"))
            .field("X-Owner", who.unwrap_or("-"))
            .into()
    })
    .await
}

fn holds(answer: &Received, secret: &str) -> bool {
    format!("{answer:?}{}", answer.text()).contains(secret)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_callers_with_the_same_keys_never_see_each_other() {
    let origin = origin().await;
    let gateway = launch(&origin).start().await;
    let callers = ["alice-secret", "bob-secret"];
    for round in 0..2 {
        for key in 0..20 {
            for (me, other) in [(callers[0], callers[1]), (callers[1], callers[0])] {
                let asked = pay(&format!("k{key}"))
                    .bearer(me)
                    .body(format!("body of {me} {key}"));
                let answer = ask(&gateway, &asked).await;
                assert_eq!((answer.status, answer.is_replay()), (201, round == 1));
                assert!(holds(&answer, me) && !holds(&answer, other), "{answer:?}");
                let probe = pay(&format!("k{key}"))
                    .bearer(me)
                    .body(format!("body of {other} {key}"));
                let refused = ask(&gateway, &probe).await;
                expect_problem(&refused, 422, "key-reused");
                assert!(!holds(&refused, other));
            }
        }
    }
    assert_eq!(origin.count(), 40);
    assert!(origin.effects().values().all(|count| *count == 1));
}

#[tokio::test]
async fn a_foreign_key_looks_like_a_fresh_one() {
    let origin = Origin::scripted(|_| Answer::new(201, "done").into()).await;
    let gateway = launch(&origin).start().await;
    ask(&gateway, &pay("used").bearer("alice")).await;
    let foreign = ask(&gateway, &pay("used").bearer("bob")).await;
    let fresh = ask(&gateway, &pay("fresh").bearer("bob")).await;
    assert_eq!(
        (foreign.status, foreign.text()),
        (fresh.status, fresh.text())
    );
    let names = |answer: &Received| {
        let names: Vec<_> = answer
            .fields
            .iter()
            .map(|(name, _)| name.to_owned())
            .collect();
        names
    };
    assert_eq!(names(&foreign), names(&fresh));
}

#[tokio::test]
async fn callers_are_told_apart_by_api_key_and_nobody_is_one_caller() {
    let origin = origin().await;
    let gateway = launch(&origin).start().await;
    let by_key = |key: &str| pay("k").field("X-Api-Key", key);
    let a = ask(&gateway, &by_key("a")).await;
    let b = ask(&gateway, &by_key("b")).await;
    assert!(!a.is_replay() && !b.is_replay());
    expect_replay(&ask(&gateway, &by_key("a")).await, &a);
    let nobody = ask(&gateway, &pay("k")).await;
    assert!(!nobody.is_replay());
    expect_replay(&ask(&gateway, &pay("k")).await, &nobody);
    assert_eq!(origin.count(), 3);
}

#[tokio::test]
async fn credentials_that_change_with_every_attempt_are_refused() {
    let origin = origin().await;
    let gateway = launch(&origin).start().await;
    let signed = pay("k").field(
        "Authorization",
        "AWS4-HMAC-SHA256 Credential=a, Signature=b",
    );
    let refused = ask(&gateway, &signed).await;
    assert_eq!(
        refused.problem().as_deref(),
        Some("unstable-credential"),
        "{}",
        refused.text()
    );
    assert_eq!(origin.count(), 0);
}

/// A gateway that knows callers by their tokens.
fn jwt(origin: &Origin) -> Launch {
    let config = "[identity]\nfrom = \"jwt\"\n\
                  jwt = { secret_env = \"JWT_SECRET\", issuer = \"https://id.example\" }\n";
    launch(origin).config(config).variable("JWT_SECRET", SECRET)
}

fn token(subject: &str, serial: u32, secret: &str) -> String {
    let claims = json!({
        "iss": "https://id.example",
        "sub": subject,
        "jti": serial.to_string(),
        "exp": LATE + u64::from(serial),
    });
    let key = EncodingKey::from_secret(secret.as_bytes());
    jsonwebtoken::encode(&Header::default(), &claims, &key).unwrap()
}

#[tokio::test]
async fn a_token_that_is_renewed_between_attempts_is_the_same_caller() {
    let origin = origin().await;
    let gateway = jwt(&origin).start().await;
    let (one, two) = (token("alice", 1, SECRET), token("alice", 2, SECRET));
    assert_ne!(one, two);
    let first = ask(&gateway, &pay("k").bearer(&one)).await;
    assert_eq!(first.status, 201, "{}", first.text());
    expect_replay(&ask(&gateway, &pay("k").bearer(&two)).await, &first);
    let other = ask(&gateway, &pay("k").bearer(&token("bob", 1, SECRET))).await;
    assert_eq!((other.status, other.is_replay()), (201, false));
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn nobody_without_a_valid_token_gets_a_replay() {
    let origin = origin().await;
    let gateway = jwt(&origin).start().await;
    let good = token("alice", 1, SECRET);
    assert_eq!(ask(&gateway, &pay("k").bearer(&good)).await.status, 201);
    let forged = token("alice", 1, "another secret that is long enough, too");
    let cut = &good[..good.len() - 2];
    let unsigned = good.rsplit_once('.').unwrap().0.to_owned() + ".";
    let asks: [Ask; 5] = [
        pay("k"),
        pay("k").bearer(&forged),
        pay("k").bearer(cut),
        pay("k").bearer(&unsigned),
        pay("k").bearer(&good).bearer(&good),
    ];
    for asked in &asks {
        let refused = ask(&gateway, asked).await;
        assert!(matches!(refused.status, 400 | 401), "{}", refused.text());
        assert_eq!(refused.problem().as_deref(), Some("unidentified-caller"));
    }
    assert_eq!(origin.count(), 1);
}
