//! The nemesis: what happens to hosts and to the wires between them.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use turmoil::Sim;

use crate::depot::Depot;
use crate::notes::Notes;
use crate::plan::{Plan, pick};
use crate::run::Lever;

/// What is done to a run, in the order of time.
pub(crate) struct Nemesis {
    notes: Arc<Notes>,
    depot: Arc<Depot>,
    /// Those of the gateways.
    levers: Vec<Rc<Lever>>,
    hosts: Hosts,
    /// The last deed first.
    deeds: Vec<(Duration, Deed)>,
}

/// The names of the hosts.
struct Hosts {
    gateways: Vec<String>,
    clients: Vec<String>,
}

const UPSTREAM: &str = "upstream";

#[derive(Clone, Debug)]
enum Deed {
    Partition(String, String),
    PartitionOneWay(String, String),
    Repair(String, String),
    Hold(String, String),
    Release(String, String),
    /// The host loses its power: nobody is told.
    Crash(String),
    Bounce(String),
    /// The gateway's process ends, and its callers' connections with it.
    Die(usize),
    /// The gateway is asked to finish.
    ShutDown(usize),
    CutOff(usize),
    LetBack(usize),
}

// === impl Nemesis ===

impl Nemesis {
    pub(crate) fn new(
        plan: &Plan,
        notes: Arc<Notes>,
        depot: Arc<Depot>,
        levers: Vec<Rc<Lever>>,
        rng: &mut Rng,
    ) -> Self {
        let hosts = Hosts {
            gateways: (0..plan.gateways)
                .map(|it| format!("gateway-{it}"))
                .collect(),
            clients: (0..plan.clients).map(|it| format!("client-{it}")).collect(),
        };
        let mut script = Script {
            hosts: &hosts,
            end: plan.heal_at.as_millis() as u64,
            rng,
            deeds: Vec::new(),
        };
        if plan.chaos.network {
            script.network();
        }
        if plan.chaos.crashes {
            script.crashes();
        }
        if plan.chaos.store {
            script.cuts(plan.gateways);
        }
        let mut deeds = script.deeds;
        deeds.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        Self {
            notes,
            depot,
            levers,
            hosts,
            deeds,
        }
    }

    /// Does what is due.
    pub(crate) fn act(&mut self, sim: &mut Sim<'_>) {
        let now = self.notes.now();
        while let Some((_, deed)) = self.deeds.pop_if(|(at, _)| *at <= now) {
            self.notes.say(format_args!("nemesis: {deed:?}"));
            self.commit(sim, deed);
        }
    }

    fn commit(&self, sim: &mut Sim<'_>, deed: Deed) {
        match deed {
            Deed::Partition(a, b) => {
                self.notes.unsettle("network: partition");
                sim.partition(a.as_str(), b.as_str());
            }
            Deed::PartitionOneWay(a, b) => {
                self.notes.unsettle("network: partition one way");
                sim.partition_oneway(a.as_str(), b.as_str());
            }
            Deed::Hold(a, b) => {
                self.notes.unsettle("network: hold");
                sim.hold(a.as_str(), b.as_str());
            }
            Deed::Repair(a, b) => sim.repair(a.as_str(), b.as_str()),
            Deed::Release(a, b) => sim.release(a.as_str(), b.as_str()),
            Deed::Crash(host) => {
                let kind = match host == UPSTREAM {
                    true => "crash: upstream",
                    false => "crash: gateway",
                };
                self.notes.unsettle(kind);
                self.in_silence(sim, &host, |sim| sim.crash(host.as_str()));
            }
            Deed::Bounce(host) => self.bounce(sim, &host),
            Deed::Die(gateway) => {
                self.notes.unsettle("crash: gateway dies");
                self.levers[gateway].is_ending.set(true);
                self.levers[gateway].die.notify_waiters();
            }
            Deed::ShutDown(gateway) => {
                self.notes.unsettle("crash: gateway shuts down");
                self.levers[gateway].is_ending.set(true);
                self.levers[gateway].shut_down.notify_waiters();
            }
            Deed::CutOff(gateway) => self.depot.set_cut(gateway, true),
            Deed::LetBack(gateway) => self.depot.set_cut(gateway, false),
        }
    }

    /// Ends all faults: every wire is whole, every host is up.
    pub(crate) fn heal(&mut self, sim: &mut Sim<'_>) {
        self.deeds.clear();
        self.depot.heal();
        self.hosts.each_wire(|a, b| sim.release(a, b));
        let ending = self.levers.iter().map(|lever| lever.is_ending.get());
        for (host, is_ending) in self.hosts.servers().zip(ending.chain([false])) {
            if is_ending || !sim.is_host_running(host) {
                self.bounce(sim, host);
            }
        }
    }

    fn bounce(&self, sim: &mut Sim<'_>, host: &str) {
        self.in_silence(sim, host, |sim| sim.bounce(host));
    }

    /// Does something to a gateway whose last words nobody hears.
    ///
    /// The tasks of a runtime end in an order that tokio does not draw from the seed; were their
    /// last words heard, a seed would not repeat itself.
    fn in_silence(&self, sim: &mut Sim<'_>, host: &str, act: impl FnOnce(&mut Sim<'_>)) {
        let mut heard = Vec::new();
        self.hosts.each_wire(|a, b| {
            if b == host {
                heard.push(a.to_owned());
            } else if a == host {
                heard.push(b.to_owned());
            }
        });
        let is_gateway = host != UPSTREAM;
        for other in heard.iter().filter(|_| is_gateway) {
            sim.partition_oneway(host, other.as_str());
        }
        act(sim);
        for other in heard.iter().filter(|_| is_gateway) {
            sim.repair_oneway(host, other.as_str());
        }
    }
}

// === impl Hosts ===

impl Hosts {
    fn servers(&self) -> impl Iterator<Item = &str> {
        let gateways = self.gateways.iter().map(String::as_str);
        gateways.chain([UPSTREAM])
    }

    /// Calls with both ends of every wire that is used.
    fn each_wire(&self, mut call: impl FnMut(&str, &str)) {
        for gateway in &self.gateways {
            call(gateway, UPSTREAM);
            self.clients.iter().for_each(|client| call(client, gateway));
        }
    }

    fn wire(&self, rng: &mut Rng) -> (String, String) {
        let gateway = pick(rng, &self.gateways).clone();
        // The wire to the service is the one that matters most.
        match rng.bool() {
            true => (gateway, UPSTREAM.to_owned()),
            false => (pick(rng, &self.clients).clone(), gateway),
        }
    }
}

/// What is being planned.
struct Script<'a> {
    hosts: &'a Hosts,
    /// When everything is over, in milliseconds.
    end: u64,
    rng: &'a mut Rng,
    deeds: Vec<(Duration, Deed)>,
}

// === impl Script ===

impl Script<'_> {
    fn add(&mut self, at: u64, deed: Deed) {
        self.deeds.push((Duration::from_millis(at), deed));
    }

    /// A moment, and a later one.
    fn span(&mut self) -> (u64, u64) {
        let from = self.rng.u64(50..self.end);
        (from, from + self.rng.u64(50..self.end))
    }

    fn network(&mut self) {
        for _ in 0..self.rng.usize(1..6) {
            let (from, to) = self.span();
            let (a, b) = self.hosts.wire(self.rng);
            match self.rng.u8(0..4) {
                0 => {
                    self.add(from, Deed::Partition(a.clone(), b.clone()));
                    self.add(to, Deed::Repair(a, b));
                }
                1 => {
                    let (a, b) = if self.rng.bool() { (a, b) } else { (b, a) };
                    self.add(from, Deed::PartitionOneWay(a.clone(), b.clone()));
                    self.add(to, Deed::Repair(a, b));
                }
                2 => {
                    self.add(from, Deed::Hold(a.clone(), b.clone()));
                    self.add(to, Deed::Release(a, b));
                }
                _ => self.swizzle(from, to),
            }
        }
    }

    /// Clogs some wires one after the other, and clears them in another order.
    fn swizzle(&mut self, from: u64, to: u64) {
        let mut wires = Vec::new();
        let hosts = self.hosts;
        hosts.each_wire(|a, b| wires.push((a.to_owned(), b.to_owned())));
        self.rng.shuffle(&mut wires);
        wires.truncate(self.rng.usize(1..=wires.len()));
        let step = (to - from) / (2 * wires.len() as u64 + 1);
        let clear = from + step * wires.len() as u64;
        let count = wires.len() as u64;
        for ((a, b), at) in wires.iter().zip(0..) {
            self.add(from + step * at, Deed::Hold(a.clone(), b.clone()));
        }
        self.rng.shuffle(&mut wires);
        for ((a, b), at) in wires.into_iter().zip(0..count) {
            self.add(clear + step * (at + 1), Deed::Release(a, b));
        }
    }

    fn crashes(&mut self) {
        for _ in 0..self.rng.usize(1..4) {
            let (from, _) = self.span();
            let servers: Vec<_> = self.hosts.servers().map(str::to_owned).collect();
            let host = pick(self.rng, &servers).clone();
            let down = self.rng.u64(50..1_500);
            let gateway = self.hosts.gateways.iter().position(|it| *it == host);
            match (gateway, self.rng.u8(0..3)) {
                (Some(gateway), 0) => {
                    self.add(from, Deed::Die(gateway));
                    // A little later, so that its callers hear of it.
                    self.add(from + 40, Deed::Crash(host.clone()));
                }
                (Some(gateway), 1) => self.add(from, Deed::ShutDown(gateway)),
                _ => self.add(from, Deed::Crash(host.clone())),
            }
            self.add(from + down, Deed::Bounce(host));
        }
    }

    fn cuts(&mut self, gateways: usize) {
        for _ in 0..self.rng.usize(0..3) {
            let (from, to) = self.span();
            let gateway = self.rng.usize(0..gateways);
            self.add(from, Deed::CutOff(gateway));
            self.add(to, Deed::LetBack(gateway));
        }
    }
}
