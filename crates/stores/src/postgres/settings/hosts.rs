//! Hosts: the servers that a URL names, each of which has its turn.

use std::time::Duration;

use onceward::clock::{Clock as _, SystemClock};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts};

use super::{InvalidSettings, Settings};

/// The servers that a URL names, one after the other, each with the time that it may take.
///
/// Whoever comes next has an even share of what is left: one that hangs does not hide the others,
/// and one that refuses at once leaves its time to them.
#[derive(Debug)]
pub(in super::super) struct Turns {
    /// The last one comes first.
    left: Vec<Config>,
    /// When the last one has to have answered, by the stopwatch.
    deadline: Duration,
}

// === impl Turns ===

impl Iterator for Turns {
    type Item = (Config, Duration);

    fn next(&mut self) -> Option<(Config, Duration)> {
        let share = self.share(SystemClock.stopwatch());
        Some((self.left.pop()?, share))
    }
}

impl Turns {
    /// What the next one may take, if its turn is now.
    fn share(&self, now: Duration) -> Duration {
        let count = u32::try_from(self.left.len()).unwrap_or(u32::MAX);
        self.deadline.saturating_sub(now) / count.max(1)
    }
}

// === impl Settings ===

impl Settings {
    /// Returns what to connect with, for each server in its turn, so that all of them have had one
    /// `within` that time.
    pub(in super::super) fn turns(&self, within: Duration) -> Turns {
        let config = self.config();
        let count = config.get_hosts().len();
        let mut left: Vec<_> = (0..count).rev().map(|at| alone(&config, at)).collect();
        if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
            fastrand::shuffle(&mut left);
        }
        Turns {
            left,
            deadline: SystemClock.stopwatch() + within,
        }
    }

    /// Sees that hosts, addresses and ports belong together.
    pub(super) fn check_hosts(&self) -> Result<(), InvalidSettings> {
        let hosts = self.config.get_hosts().len();
        let addrs = self.config.get_hostaddrs().len();
        let ports = self.config.get_ports().len();
        if addrs > 0 && addrs != hosts {
            let why = format!("the URL names {hosts} hosts and {addrs} addresses: give one each");
            return Err(InvalidSettings(why));
        }
        if ports > 1 && ports != hosts {
            let why = format!(
                "the URL names {hosts} hosts and {ports} ports: write each port behind its host"
            );
            return Err(InvalidSettings(why));
        }
        Ok(())
    }
}

/// The same with only one of the hosts.
fn alone(all: &Config, at: usize) -> Config {
    let mut one = Config::new();
    match &all.get_hosts()[at] {
        Host::Tcp(name) => one.host(name),
        #[cfg(unix)]
        Host::Unix(path) => one.host_path(path),
    };
    if let Some(addr) = all.get_hostaddrs().get(at) {
        one.hostaddr(*addr);
    }
    let ports = all.get_ports();
    if let Some(port) = ports.get(at).or(ports.first()) {
        one.port(*port);
    }
    if let Some(user) = all.get_user() {
        one.user(user);
    }
    if let Some(password) = all.get_password() {
        one.password(password);
    }
    if let Some(name) = all.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = all.get_options() {
        one.options(options);
    }
    if let Some(name) = all.get_application_name() {
        one.application_name(name);
    }
    if let Some(span) = all.get_connect_timeout() {
        one.connect_timeout(*span);
    }
    if let Some(span) = all.get_tcp_user_timeout() {
        one.tcp_user_timeout(*span);
    }
    one.keepalives(all.get_keepalives());
    one.keepalives_idle(all.get_keepalives_idle());
    if let Some(span) = all.get_keepalives_interval() {
        one.keepalives_interval(span);
    }
    if let Some(count) = all.get_keepalives_retries() {
        one.keepalives_retries(count);
    }
    one.ssl_mode(all.get_ssl_mode());
    one.ssl_negotiation(all.get_ssl_negotiation());
    one.channel_binding(all.get_channel_binding());
    one.target_session_attrs(all.get_target_session_attrs());
    one.load_balance_hosts(all.get_load_balance_hosts());
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn turns(url: &str) -> Turns {
        let settings: Settings = url.parse().unwrap();
        settings.turns(3 * SECOND)
    }

    #[test]
    fn a_server_that_hangs_has_its_share_and_one_that_refuses_leaves_its_own() {
        let mut turns = turns("postgres://app@a,b,c/shop");
        let start = turns.deadline - 3 * SECOND;
        assert_eq!(turns.share(start), SECOND);
        turns.next().unwrap();
        assert_eq!(turns.share(start), 3 * SECOND / 2);
        assert_eq!(turns.share(start + SECOND), SECOND);
        turns.next().unwrap();
        assert_eq!(turns.share(start + 2 * SECOND), SECOND);
        turns.next().unwrap();
        assert!(turns.next().is_none());
    }

    #[test]
    fn a_server_is_reached_as_the_url_says_whoever_stands_beside_it() {
        let with = "?options=-c%20a%3Db&connect_timeout=2&tcp_user_timeout=9&application_name=me\
                    &keepalives=0&sslmode=require&sslnegotiation=direct&channel_binding=require\
                    &target_session_attrs=read-write&load_balance_hosts=disable";
        let url = |hosts: &str| format!("postgres://app:secret@{hosts}/shop{with}");
        let all = turns(&url("a:1,b:2"));
        let [a, b] = [all.left[1].clone(), all.left[0].clone()];
        for (host, one) in [("a:1", a), ("b:2", b)] {
            let settings: Settings = url(host).parse().unwrap();
            assert_eq!(one, settings.config());
        }
    }

    #[test]
    fn addresses_and_ports_go_with_their_hosts() {
        let all = turns("postgres://app@a:1,b:2/shop?hostaddr=10.0.0.1,10.0.0.2");
        let hosts = all.map(|(one, _)| {
            let name = one.get_hosts()[0].clone();
            (name, one.get_hostaddrs()[0].to_string(), one.get_ports()[0])
        });
        let host = |name: &str| Host::Tcp(name.to_owned());
        assert!(hosts.eq([
            (host("a"), "10.0.0.1".to_owned(), 1),
            (host("b"), "10.0.0.2".to_owned(), 2)
        ]));
    }

    #[test]
    fn hosts_addresses_and_ports_that_do_not_fit_are_refused() {
        let refusal = |url: &str| url.parse::<Settings>().unwrap_err().to_string();
        let why = refusal("postgres://app@a,b/shop?hostaddr=10.0.0.1,10.0.0.2,10.0.0.3");
        assert!(why.contains("2 hosts and 3 addresses"), "{why}");
        let why = refusal("postgres://app@a:1,b:2/shop?port=3");
        assert!(why.contains("2 hosts and 3 ports"), "{why}");
    }
}
