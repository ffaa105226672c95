//! What the doctor looks at beside the store: files, ports, the service behind, limits.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderValue, Request, header};
use onceward::Timestamp;
use onceward::clock::{Clock as _, SystemClock};
use onceward_gateway::config::Config;
use onceward_gateway::identity::{Identity, Settings};
use onceward_gateway::server::{self, BindError};
use onceward_gateway::upstream::{Care, Outbound, Upstream};

use super::{Finding, State};
use crate::{limits, trouble};

/// How far two clocks may differ before it is worth a look.
const OFFSET_MAX: Duration = Duration::from_secs(2);

/// With fewer open files than this a gateway hardly serves: the store alone takes dozens.
const OPEN_FILES_MIN: u64 = 256;

/// That the configuration is right is known already; here is what it says.
pub(super) fn configuration(config: &Config) -> Finding {
    let routes = config.routes.len();
    let said = format!("{routes} routes, {} warnings", config.warnings.len());
    match config.warnings.is_empty() {
        true => Finding::good("configuration", said),
        false => Finding::note("configuration", said, "see onceward config check"),
    }
}

/// The files that a gateway reads when it starts.
pub(super) fn files(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(tls) = &config.tls {
        findings.push(match server::tls(&tls.cert, &tls.key) {
            Ok(_) => Finding::good("certificate", "can be read, and fits its key"),
            Err(error) => Finding::bad("certificate", error.to_string(), error.hint()),
        });
    }
    let env = |name: &str| std::env::var(name).ok();
    findings.push(
        match Identity::new(&config.identity, config.is_loopback(), env) {
            Ok(_) => callers(config),
            Err(error) => Finding::bad("identity", error.to_string(), error.hint()),
        },
    );
    findings
}

fn callers(config: &Config) -> Finding {
    match config.identity {
        Settings::Credential if !config.is_loopback() => Finding::note(
            "identity",
            "there is no [identity]: callers are told apart by what they send, unverified",
            "say who callers are, for example with from = \"jwt\": a renewed credential is another \
             caller, whose retries are new work",
        ),
        Settings::None => Finding::good("identity", "all callers are one"),
        _ => Finding::good("identity", "callers can be told apart"),
    }
}

/// Whether callers and operators can be listened for. A gateway that `is_running` has its ports.
pub(super) fn ports(config: &Config, is_running: bool) -> Vec<Finding> {
    let callers = port("listen", config.listen, is_running);
    let admin = config.admin.listen;
    let admin = admin.map(|at| port("admin listen", at, is_running));
    [callers].into_iter().chain(admin).collect()
}

fn port(what: &'static str, at: SocketAddr, is_running: bool) -> Finding {
    // Given back at once: this only looks.
    match server::bind(at) {
        Ok(_) => Finding::good(what, format!("{at} is free")),
        Err(BindError::InUse { .. }) if is_running => Finding::note(
            what,
            format!("{at} is in use, as the store is"),
            "by the gateway that runs on the store, most likely",
        ),
        Err(error) => Finding::bad(what, error.to_string(), error.hint()),
    }
}

/// How far a clock is off this machine's.
pub(super) fn compared(
    what: &'static str,
    whose: &str,
    theirs: Timestamp,
    ours: Timestamp,
) -> Finding {
    let off = ours.since(theirs).max(theirs.since(ours));
    let found = format!("{whose} clock is {} ms off this machine's", off.as_millis());
    match off > OFFSET_MAX {
        true => Finding::note(
            what,
            found,
            "set both by NTP: retention is measured by them",
        ),
        false => Finding::good(what, found),
    }
}

/// The way to the service behind, and its clock.
pub(super) async fn upstream(config: &Config) -> Vec<Finding> {
    let there =
        |error: &dyn Display, hint: &str| vec![Finding::bad("upstream", error.to_string(), hint)];
    let upstream = match onceward_gateway::upstream_of(config) {
        Ok(upstream) => upstream,
        Err(error) => return there(&error, error.hint()),
    };
    if let Err(error) = upstream.probe_connect().await {
        let found = trouble::in_one_line(&error);
        return there(&found, "start the service, or name another with --upstream");
    }
    let mut findings = vec![Finding::good(
        "upstream",
        format!("{} can be reached", config.upstream.url),
    )];
    findings.extend(date(&upstream).await);
    findings
}

/// Compares clocks by what a `HEAD` of the root is dated with, if it is.
async fn date(upstream: &Upstream) -> Option<Finding> {
    let host = HeaderValue::from_str(upstream.target().authority()).ok()?;
    let request = Request::head("/").header(header::HOST, host);
    let request = request.body(Outbound::Empty).ok()?;
    let response = upstream.send(request, Care::Any, PATIENCE).await.ok()?;
    let date = response.headers().get(header::DATE)?.to_str().ok()?;
    let since = httpdate::parse_http_date(date).ok()?;
    let since = since.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(dated(Timestamp::ZERO + since, SystemClock.wall()))
}

/// Judges the clock of the service by a `Date`, which knows no fractions of a second.
fn dated(theirs: Timestamp, ours: Timestamp) -> Finding {
    let finding = compared("upstream clock", "the upstream's", theirs, ours);
    match finding.state {
        State::Good => Finding {
            found: "the upstream's clock is right, within the second that Date tells".into(),
            ..finding
        },
        _ => finding,
    }
}

/// How long the service may take to be dated.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many connections this process may have.
pub(super) fn open_files(config: &Config) -> Finding {
    limits::raise_open_files();
    // A caller's connection and the upstream's, and some for the store and the logs.
    let wanted = config.limits.connections as u64 * 2 + 256;
    allowed(limits::open_files(), wanted)
}

fn allowed(files: Option<u64>, wanted: u64) -> Finding {
    let hint = "raise it (ulimit -Hn, LimitNOFILE=) or lower limits.connections";
    match files {
        Some(files) if files < OPEN_FILES_MIN => Finding::bad(
            "open files",
            format!("{files} may be open, and fewer than {OPEN_FILES_MIN} do not do"),
            "raise it: ulimit -Hn, LimitNOFILE=",
        ),
        Some(files) if files < wanted => Finding::note(
            "open files",
            format!("{files} may be open, {wanted} are wanted for limits.connections"),
            hint,
        ),
        Some(files) => Finding::good("open files", format!("{files} may be open")),
        None => Finding::good("open files", "any number may be open"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_open_files_are_worth_a_look_and_very_few_are_wrong() {
        let state = |files| allowed(files, 20_256).state;
        assert_eq!(state(Some(255)), State::Bad);
        assert_eq!(state(Some(256)), State::Note);
        assert_eq!(state(Some(20_255)), State::Note);
        assert_eq!(state(Some(20_256)), State::Good);
        assert_eq!(state(None), State::Good);
    }

    #[test]
    fn date_is_not_taken_for_more_exact_than_it_is() {
        let theirs = Timestamp::from_micros(1_777_777_777_000_000);
        let near = dated(theirs, theirs + Duration::from_millis(1_900));
        assert_eq!(near.state, State::Good);
        assert!(near.found.ends_with("within the second that Date tells"));
        let far = dated(theirs, theirs + Duration::from_secs(60));
        assert_eq!(far.state, State::Note);
        assert!(far.found.contains("60000 ms off"), "{}", far.found);
    }
}
