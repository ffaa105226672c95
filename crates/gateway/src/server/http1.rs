//! HTTP/1: one request after the other.

use std::future::{Future, poll_fn};
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use http::response::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use onceward_http::Profile;
use onceward_http::problem::{Media, Problem};
use tokio::task::yield_now;

use super::caps::Permit;
use super::connection::Common;
use super::encode::{self, Framing, Plan};
use super::feed::Feed;
use super::head::Caller;
use super::input::{Next, Turn};
use super::line::Line;
use super::switch::{self, Lever};
use super::wire::Ahead;
use super::{BoxError, Peer, Received, Settings};
use crate::net::Socket;

/// What becomes of a connection behind an answer.
enum After {
    Next,
    /// It is closed, and first what the caller may still be sending is taken in for a while.
    End {
        lingers: bool,
    },
    Switch(Lever),
}

/// Serves a connection until it ends.
pub(super) async fn talk<S, F, B, T>(
    common: Common<S>,
    io: T,
    ahead: Ahead,
    peer: Peer,
    permit: Permit,
) -> io::Result<()>
where
    S: Fn(Request<Received>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    T: Socket + Send + 'static,
{
    let mut line = Line::new(io, &ahead, &common.settings, permit);
    let mut closing = pin!(common.closing.given());
    let lingers = loop {
        let mut next = poll_fn(|cx| line.poll_next(cx, closing.as_mut())).await?;
        if matches!(next, Next::Ended) && common.closing.is_given() {
            // The runtime knows of what has come only after it has looked.
            yield_now().await;
            next = poll_fn(|cx| line.poll_next(cx, closing.as_mut())).await?;
        }
        let after = match next {
            Next::Turn(turn) => answer(&mut line, turn, &common, peer).await?,
            Next::Refused(refusal) => {
                let (problem, stranger) = (refusal.problem(), Caller::STRANGER);
                refuse(&mut line, &problem, stranger, &common.settings).await?
            }
            Next::Ended => After::End {
                lingers: line.is_in_talk(),
            },
        };
        match after {
            After::Next => {}
            After::End { lingers } => break lingers,
            After::Switch(lever) => {
                lever.pull(line.switch());
                return Ok(());
            }
        }
    };
    line.end(lingers).await
}

/// Has one request answered.
async fn answer<S, F, B, T>(
    line: &mut Line<T>,
    turn: Box<Turn>,
    common: &Common<S>,
    peer: Peer,
) -> io::Result<After>
where
    S: Fn(Request<Received>) -> F,
    F: Future<Output = Response<B>>,
    B: Body<Data = Bytes, Error: Into<BoxError>>,
    T: Socket,
{
    let Turn {
        head,
        content,
        mut feed,
    } = *turn;
    let (mut parts, caller, conflict) = (head.parts, head.caller, head.conflict);
    parts.extensions.insert(peer);
    if let Some(conflict) = conflict {
        parts.extensions.insert(conflict);
    }
    let lever = head.upgrades.then(|| {
        let (lever, switch) = switch::pair();
        parts.extensions.insert(switch);
        lever
    });
    let body = Received::new(content, &common.settings);
    let response = {
        let work = (common.service)(Request::from_parts(parts, body));
        run(line, pin!(work), feed.as_mut()).await?
    };
    // Nothing behind a conflict is read. Behind an answer that did not wait for its whole request
    // there is the rest of it.
    let is_read = conflict.is_none() && settle(line, feed.as_mut()).await;
    let (parts, body) = response.into_parts();
    let length = match body.is_end_stream() {
        true => Some(0),
        false => body.size_hint().exact(),
    };
    let closes = !is_read || common.closing.is_given();
    let Some(mut plan) = begin(line, &parts, length, caller, closes) else {
        return refuse(line, &Problem::UpstreamFailed, caller, &common.settings).await;
    };
    // Where only the end of the connection says that an answer is whole, a part of it must not end
    // in the same way, whoever cuts it.
    let is_whole_at_close = plan.framing == Framing::UntilClose;
    if is_whole_at_close {
        line.close_by_reset(true)?;
    }
    {
        let mut body = pin!(body);
        poll_fn(|cx| line.poll_deliver(cx, body.as_mut(), &mut plan, feed.as_mut())).await?;
    }
    if is_whole_at_close {
        line.close_by_reset(false)?;
    }
    Ok(match lever {
        Some(lever) if is_read && parts.status == StatusCode::SWITCHING_PROTOCOLS => {
            After::Switch(lever)
        }
        _ if plan.closes => After::End { lingers: true },
        _ => After::Next,
    })
}

/// Runs the service's work to its answer, and fetches the request's body meanwhile.
async fn run<F, T>(
    line: &mut Line<T>,
    mut work: Pin<&mut F>,
    mut feed: Option<&mut Feed>,
) -> io::Result<F::Output>
where
    F: Future,
    T: Socket,
{
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(answer) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(answer));
            }
            match feed.as_deref_mut().map(|feed| line.fetch(cx, feed)) {
                Some(Ok(true)) => {}
                Some(Err(error)) => return Poll::Ready(Err(error)),
                Some(Ok(false)) | None => return Poll::Pending,
            }
        }
    })
    .await
}

/// Writes the head of an answer, unless it cannot be one.
fn begin<T>(
    line: &mut Line<T>,
    parts: &Parts,
    length: Option<u64>,
    caller: Caller,
    closes: bool,
) -> Option<Plan>
where
    T: Socket,
{
    let room = line.output.room();
    let before = room.len();
    match encode::head(room, parts, length, caller, closes) {
        Ok(plan) => Some(plan),
        Err(error) => {
            tracing::error!(%error, "an answer cannot be sent");
            room.truncate(before);
            None
        }
    }
}

/// Says whether the whole request was read.
async fn settle<T>(line: &mut Line<T>, feed: Option<&mut Feed>) -> bool
where
    T: Socket,
{
    let Some(feed) = feed else {
        return true;
    };
    // The answer is all that a caller who waits for a word gets now, and whether the body follows
    // nobody can tell.
    if mem::take(&mut feed.owes_word) {
        return false;
    }
    poll_fn(|cx| Poll::Ready(line.settle(cx, feed))).await
}

/// Answers what is no request, or what nobody else could answer.
async fn refuse<T>(
    line: &mut Line<T>,
    problem: &Problem,
    caller: Caller,
    settings: &Settings,
) -> io::Result<After>
where
    T: Socket,
{
    let told = problem.answer(&settings.naming, Profile::Ietf, Media::default());
    let (parts, body) = told.into_parts();
    let (out, len) = (line.output.room(), body.len() as u64);
    let written = encode::head(out, &parts, Some(len), caller, true);
    let plan = written.expect("a problem has a final status and says no length");
    if !plan.is_done() {
        out.extend_from_slice(&body);
    }
    poll_fn(|cx| line.poll_send(cx)).await?;
    Ok(After::End { lingers: true })
}
