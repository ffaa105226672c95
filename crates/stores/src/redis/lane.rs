//! Lanes: connections to a server, each of which sends one batch after the other.

use std::sync::Arc;
use std::time::Duration;

use onceward::bugs::{Bug, seeded};
use redis::{Pipeline, RedisError, Value};

use super::SERVER;
use super::ask::{Answer, Ask};
use super::batch::{self, Call};
use super::connect::Session;
use super::link::Hub;
use super::node::Node;
use super::script::Script;
use super::trouble::{Trouble, What};
use crate::server::Backoff;

/// How long what may work when it is tried again waits before that.
const PAUSE: Duration = Duration::from_millis(20);

/// The least that a batch is given to be answered.
const LEAST: Duration = Duration::from_millis(10);

/// A connection to a node, and what it needs.
struct Lane<'a> {
    hub: &'a Arc<Hub>,
    node: &'a Arc<Node>,
    session: Session,
}

/// What is left to do after the answers of a batch were handed out.
#[derive(Default)]
struct Rest {
    /// Commands whose scripts the server does not know.
    unknown: Vec<Ask>,
    /// The server takes no writes any more.
    demoted: Option<Trouble>,
}

/// Serves a node until it is retired or the link is closed, over one connection after the other.
pub(super) async fn run(hub: Arc<Hub>, node: Arc<Node>, mut first: Option<Session>) {
    let mut backoff = Backoff::default();
    while !hub.is_closing() && !node.is_retired() {
        let session = match first.take() {
            Some(session) => Ok(session),
            None => {
                let host = node.host.lock().clone();
                hub.connector.connect(&host).await
            }
        };
        match session {
            Ok(session) => {
                node.lane_up(&session.host);
                // Whether or not another lane has noticed that the server was away: behind a new
                // connection may be another server, or one that is set up in another way.
                hub.returned.notify_one();
                backoff = Backoff::default();
                let mut lane = Lane {
                    hub: &hub,
                    node: &node,
                    session,
                };
                let served = lane.serve().await;
                node.lane_down();
                if let Err(trouble) = served {
                    tracing::warn!(why = %trouble, "a connection to Redis was lost");
                    hub.lost(&node);
                }
            }
            Err(error) => {
                let why = error.line();
                backoff.log(SERVER, &why);
                node.unreachable(&why);
                hub.lost(&node);
                tokio::time::sleep(backoff.next()).await;
            }
        }
    }
}

// === impl Lane ===

impl Lane<'_> {
    async fn serve(&mut self) -> Result<(), Trouble> {
        loop {
            let (batch, under_way) = self.node.take();
            if !batch.is_empty() {
                let sent = self.send(batch).await;
                drop(under_way);
                if sent.is_err() {
                    // Another lane goes on with what waits.
                    self.node.wake.notify_one();
                }
                sent?;
                continue;
            }
            if self.hub.is_closing() || self.node.is_retired() {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = self.node.wake.notified() => {}
                // Other pushes say nothing that matters here.
                push = self.session.gone.recv() => match push {
                    Some(push) if push.kind != redis::PushKind::Disconnection => {}
                    _ => return Err(Trouble::lost("the connection was closed")),
                },
            }
        }
    }

    /// Sends a batch, and hands out the answers. An error says that the connection is of no
    /// further use.
    async fn send(&mut self, batch: Vec<Ask>) -> Result<(), Trouble> {
        let settings = self.hub.settings();
        // Reads wait as well: a record that is shown and not replicated would count for its reader.
        let waits = settings.wait > 0;
        let deadline = batch.iter().map(|ask| ask.deadline).min();
        let calls = batch::gather(batch, self.hub.is_cluster());
        let mut pipeline = Pipeline::with_capacity(calls.len() + 1);
        for call in &calls {
            call.add_to(&mut pipeline);
        }
        if waits {
            let timeout = settings.wait_timeout.as_millis();
            let timeout = u64::try_from(timeout).unwrap_or(u64::MAX);
            pipeline.cmd("WAIT").arg(settings.wait).arg(timeout);
        }
        let left = deadline.unwrap_or_default();
        let left = left.saturating_sub(self.hub.stopwatch()).max(LEAST);
        let count = pipeline.len();
        let connection = &mut self.session.connection;
        let sent = connection.send_packed_commands(&pipeline, 0, count);
        let trouble = match tokio::time::timeout(left, sent).await {
            Ok(Ok(values)) if values.len() == count => {
                return self.hand_out(calls, values, waits).await;
            }
            Ok(Ok(_)) => Trouble::lost("the server gave fewer answers than it was asked for"),
            Ok(Err(error)) => Trouble::from(&error),
            Err(_) => Trouble::lost("the server did not answer in time"),
        };
        for mut ask in calls.into_iter().flat_map(|call| call.asks) {
            ask.is_asking = false;
            self.again(ask.again(), &trouble);
        }
        Err(trouble)
    }

    async fn hand_out(
        &mut self,
        calls: Vec<Call>,
        mut values: Vec<Value>,
        waits: bool,
    ) -> Result<(), Trouble> {
        let replicas = match waits {
            true => Some(count(values.pop().as_ref())),
            false => None,
        };
        let mut rest = Rest::default();
        let mut values = values.into_iter();
        for call in calls {
            for (ask, value, times) in call.answered(&mut values) {
                match value {
                    Value::ServerError(error) => {
                        let trouble = Trouble::answered(&error, &self.session.host);
                        self.deal(ask, trouble, &mut rest);
                    }
                    value => {
                        let answer = Answer {
                            value,
                            times,
                            node: self.node.id,
                            is_again: ask.is_again,
                            replicas,
                        };
                        ask.answer(Ok(answer));
                    }
                }
            }
        }
        if !rest.unknown.is_empty() {
            self.load(rest.unknown).await?;
        }
        rest.demoted.map_or(Ok(()), Err)
    }

    /// Deals with a command that the server did not run.
    fn deal(&self, mut ask: Ask, trouble: Trouble, rest: &mut Rest) {
        ask.is_asking = false;
        match trouble.what() {
            What::NoScript if ask.script.is_some() && !seeded(Bug::ScriptsForgotten) => {
                rest.unknown.push(ask);
            }
            What::Moved(host) => self.hub.moved(ask, host),
            What::Ask(host) => self.hub.asked_elsewhere(ask, host),
            What::Again => {
                self.hub.stale();
                self.later(ask, trouble);
            }
            What::Demoted => {
                rest.demoted = Some(trouble.clone());
                self.later(ask, trouble);
            }
            // What came before it may have happened.
            What::Full | What::Refused if ask.is_again => ask.answer(Err(Trouble::lost(trouble))),
            What::NoScript | What::Full | What::Refused | What::Lost => ask.answer(Err(trouble)),
        }
    }

    /// Teaches the server the scripts that it does not know, and asks again.
    async fn load(&mut self, unknown: Vec<Ask>) -> Result<(), Trouble> {
        let mut scripts: Vec<&Arc<Script>> = Vec::new();
        for script in unknown.iter().filter_map(|ask| ask.script.as_ref()) {
            if !scripts.iter().any(|known| Arc::ptr_eq(known, script)) {
                scripts.push(script);
            }
        }
        let mut loaded: Result<(), RedisError> = Ok(());
        for script in scripts {
            loaded = loaded.and(self.session.ask(&script.load()).await.map(drop));
        }
        let trouble = loaded.as_ref().err().map(Trouble::from);
        for ask in unknown {
            match &trouble {
                Some(trouble) => self.again(ask, trouble),
                None => self.node.push(ask),
            }
        }
        trouble.map_or(Ok(()), Err)
    }

    /// Sends a command again, unless its time is up.
    fn again(&self, ask: Ask, trouble: &Trouble) {
        match ask.deadline <= self.hub.stopwatch() {
            true => ask.answer(Err(trouble.clone())),
            false => self.hub.route(ask),
        }
    }

    /// Sends a command again after a pause, unless its time is up by then.
    fn later(&self, ask: Ask, trouble: Trouble) {
        let hub = Arc::clone(self.hub);
        self.hub.spawn(async move {
            tokio::time::sleep(PAUSE.mul_f64(0.5 + fastrand::f64())).await;
            match ask.deadline <= hub.stopwatch() {
                true => ask.answer(Err(trouble)),
                false => hub.route(ask),
            }
        });
    }
}

/// How many replicas have what was written.
fn count(answer: Option<&Value>) -> usize {
    match answer {
        Some(Value::Int(count)) => usize::try_from(*count).unwrap_or(0),
        _ => 0,
    }
}
