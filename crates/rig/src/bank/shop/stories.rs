//! The stories: what callers do to the shop, and how it must not end.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Request;
use http_body::Frame;

use super::{Shop, Told, by, ensure, full, pay, pipe};

type Story = fn(Shop) -> BoxFuture<'static, Told>;

macro_rules! stories {
    ($($story:ident)*) => {
        &[$((stringify!($story), |shop| Box::pin($story(shop)))),*]
    };
}

/// Every story.
pub(super) const ALL: &[(&str, Story)] = stories! {
    a_retry_gets_the_first_answer
    another_query_is_another_request
    another_caller_has_keys_of_its_own
    nobody_in_particular_has_no_keys
    one_request_has_one_key
    a_cut_request_is_not_executed
    a_slow_request_is_executed_once_it_is_whole
    work_goes_on_without_its_caller
    a_cut_answer_is_no_answer
    nobody_holds_an_answer_that_is_not_stored
    a_bad_gateway_says_nothing
    only_the_layer_says_what_is_a_replay
    without_a_store_nothing_is_executed
};

async fn a_retry_gets_the_first_answer(shop: Shop) -> Told {
    let (first, retry) = (shop.pay("k").await, shop.pay("k").await);
    first.expect_paid()?;
    retry.expect_paid()?;
    ensure(retry.is_replay() && retry.body == first.body, || {
        format!("a retry is answered with {retry:?}")
    })?;
    for name in ["keep-alive", "set-cookie"] {
        ensure(!retry.headers.contains_key(name), || {
            format!("the first caller's {name} is replayed")
        })?;
    }
    ensure(shop.runs() == 1, || "a retry is executed".to_owned())
}

async fn another_query_is_another_request(shop: Shop) -> Told {
    let with = |query: &str| {
        let request = pay("k").uri(format!("/payments?{query}"));
        shop.send(request, full("100"))
    };
    with("to=ann").await.expect_paid()?;
    let other = with("to=bob").await;
    ensure(other.status == 422, || {
        format!("another query under the same key: {}", other.status)
    })
}

async fn another_caller_has_keys_of_its_own(shop: Shop) -> Told {
    let first = shop.pay("k").await;
    first.expect_paid()?;
    let bobs = Shop::of("bob", shop.shared.clone(), shop.lab.clock.clone());
    let other = bobs.send(by("bob", "k"), full("100")).await;
    other.expect_paid()?;
    ensure(!other.is_replay() && bobs.runs() == 1, || {
        "bob is given another caller's answer".to_owned()
    })?;
    match bobs.judged().await {
        None => Ok(()),
        Some(wrong) => Err(wrong),
    }
}

async fn nobody_in_particular_has_no_keys(shop: Shop) -> Told {
    let anonymous = Request::post("/payments").header("idempotency-key", "k");
    let refused = shop.send(anonymous, full("100")).await;
    ensure(refused.status.is_client_error() && shop.runs() == 0, || {
        format!("nobody in particular is served: {}", refused.status)
    })
}

async fn one_request_has_one_key(shop: Shop) -> Told {
    let two = pay("k").header("idempotency-key", "l");
    let refused = shop.send(two, full("100")).await;
    ensure(refused.status == 400 && shop.runs() == 0, || {
        format!("a request with two keys: {}", refused.status)
    })
}

async fn a_cut_request_is_not_executed(shop: Shop) -> Told {
    let (out, body) = pipe();
    let _ = out.send(Ok(Frame::data(Bytes::from("10"))));
    let _ = out.send(Err("the line is dead".into()));
    let refused = shop.send(pay("k"), body).await;
    ensure(shop.runs() == 0, || {
        format!("a cut request is executed: {}", refused.status)
    })
}

async fn a_slow_request_is_executed_once_it_is_whole(shop: Shop) -> Told {
    let (out, body) = pipe();
    let answer = tokio::spawn(shop.send(pay("k"), body));
    let _ = out.send(Ok(Frame::data(Bytes::from("10"))));
    shop.settle().await;
    ensure(shop.runs() == 0, || {
        "a request is executed before its body was whole".to_owned()
    })?;
    let _ = out.send(Ok(Frame::data(Bytes::from("0"))));
    drop(out);
    let answer = answer.await.map_err(|error| error.to_string())?;
    answer.expect_paid()
}

async fn work_goes_on_without_its_caller(shop: Shop) -> Told {
    let waits = pay("k").header("x-act", "wait");
    let caller = tokio::spawn(shop.send(waits, full("100")));
    shop.settle().await;
    ensure(shop.runs() == 1, || "the work does not begin".to_owned())?;
    caller.abort();
    let _ = caller.await;
    shop.gate.add_permits(1);
    shop.settle().await;
    let retry = shop.pay("k").await;
    ensure(retry.is_replay(), || {
        format!("the work ended with its caller: {}", retry.status)
    })
}

async fn a_cut_answer_is_no_answer(shop: Shop) -> Told {
    let cut = pay("k").header("x-act", "cut");
    shop.send(cut, full("100")).await;
    shop.pay("k").await;
    ensure(shop.runs() == 1, || "a retry is executed".to_owned())
}

async fn nobody_holds_an_answer_that_is_not_stored(shop: Shop) -> Told {
    for act in ["lost", "stream"] {
        let request = pay(act).header("x-act", act);
        let asked = tokio::spawn(shop.send(request, full("100")));
        shop.pass(Duration::from_secs(20)).await;
        shop.store.set_down(false);
        let seen = asked.await.map_err(|error| error.to_string())?;
        // It is stored by now, and a retry gets it.
        shop.pass(Duration::from_secs(2)).await;
        let retry = shop.pay(act).await;
        ensure(retry.is_replay(), || format!("a retry gets {retry:?}"))?;
        ensure(seen.body != retry.body, || {
            format!("an answer is given and not stored: {act}")
        })?;
    }
    Ok(())
}

async fn a_bad_gateway_says_nothing(shop: Shop) -> Told {
    let bad = pay("k").header("x-act", "502");
    shop.send(bad, full("100")).await;
    shop.pay("k").await;
    // Whether the retry was executed is for the judge to say.
    Ok(())
}

async fn only_the_layer_says_what_is_a_replay(shop: Shop) -> Told {
    let marked = pay("k").header("x-act", "marked");
    let first = shop.send(marked, full("100")).await;
    first.expect_paid()?;
    ensure(!first.is_replay(), || {
        "the first answer says that it is a replay".to_owned()
    })
}

async fn without_a_store_nothing_is_executed(shop: Shop) -> Told {
    shop.pay("before").await.expect_paid()?;
    shop.store.set_down(true);
    let asked = tokio::spawn(shop.send(pay("k"), full("100")));
    shop.pass(Duration::from_secs(20)).await;
    shop.store.set_down(false);
    let refused = asked.await.map_err(|error| error.to_string())?;
    ensure(shop.runs() == 1 && refused.status == 503, || {
        format!("executed while the store was away: {}", refused.status)
    })
}
