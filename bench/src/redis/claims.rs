//! Claims through the store, alone and completed, beside a plain `SET NX`.

use onceward::record::StateName;

use super::benchmark::SET_NX;
use super::server::{Persistence, Server};
use crate::Failed;
use crate::figures::{self, Pair, Pairs};
use crate::payer::{Payer, compare};
use crate::plan::Plan;
use crate::report::Report;

/// How many callers there are, and what is asked of a claim by so many.
pub(crate) const CALLERS: [(usize, Option<&str>); 4] = [
    (1, None),
    (16, None),
    (64, Some("rate >= 0.80x")),
    (256, None),
];

/// What a claim is compared on, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claims<'a> {
    pub(crate) server: &'a Server,
    pub(crate) persistence: Persistence,
    /// What the figures begin with.
    pub(crate) name: &'a str,
    /// More settings of the store.
    pub(crate) settings: &'a str,
}

/// The same number of callers, in turn.
#[derive(Debug, Default)]
struct Rounds {
    claims: Vec<Pair>,
    pairs: Vec<Pair>,
}

const PREFIX: &str = "claims";

/// The digits of a plain key are below this, which is as much as redis-benchmark takes.
const BELOW: u32 = i32::MAX.cast_unsigned();

// === impl Claims ===

impl Claims<'_> {
    /// Measures all sides in turn, with each number of callers; the median ratio counts.
    pub(crate) async fn run(
        self,
        report: &mut Report,
        callers: &[(usize, Option<&str>)],
        plan: Plan,
    ) -> Result<(), Failed> {
        let payer = Payer::open(&self.server.store(PREFIX, self.settings)).await?;
        // The store keeps a secret of its own, in a record that is completed.
        let own = self.records(StateName::Completed).await?;
        let (mut measured, mut plain) = (Vec::new(), 0);
        for &(callers, goal) in callers {
            eprintln!("{}, {callers} callers", self.persistence.title());
            let plan = match goal {
                Some(_) => plan.thorough(),
                None => plan,
            };
            let mut rounds = Rounds::default();
            for _ in 0..plan.rounds {
                let ran = SET_NX.run(self.server, callers, BELOW, plan).await?;
                plain += ran.commands;
                rounds.claims.push(Pair {
                    ours: payer.keep_claiming(callers, plan).await.into(),
                    theirs: ran.side,
                });
                rounds.pairs.push(Pair {
                    ours: payer.keep_paying(callers, plan).await.into(),
                    theirs: ran.side,
                });
            }
            measured.push((callers, goal, rounds));
        }
        self.report(report, measured);
        self.check(&payer, own, plain).await
    }

    fn report(self, report: &mut Report, measured: Vec<(usize, Option<&str>, Rounds)>) {
        let (name, title) = (self.name, self.persistence.title());
        let mut pairs = Vec::new();
        self.table(report, &format!("a claim, {title}"));
        for (callers, goal, rounds) in measured {
            let cells = [callers.to_string(), goal.unwrap_or_default().to_owned()];
            let claims = Pairs::new(rounds.claims);
            claims.report(report, &format!("{name}_{callers}"), "set_nx", cells);
            pairs.push((callers, Pairs::new(rounds.pairs)));
        }
        self.table(report, &format!("claim + complete, {title}"));
        for (callers, pairs) in pairs {
            let cells = [callers.to_string(), String::new()];
            pairs.report(report, &format!("{name}_pair_{callers}"), "set_nx", cells);
        }
    }

    fn table(self, report: &mut Report, what: &str) {
        let title = format!("{what}, beside one SET NX by redis-benchmark, in turn");
        figures::table(report, &title, "callers", "SET NX");
    }

    /// What was acknowledged is there and nothing else, and what was paid for is not paid for a
    /// second time.
    async fn check(self, payer: &Payer, own: u64, plain: u64) -> Result<(), Failed> {
        let (claimed, paid) = (payer.claimed(), payer.paid() + own);
        compare(
            "the store",
            self.records(StateName::Claimed).await?,
            claimed,
        )?;
        compare("the store", self.records(StateName::Completed).await?, paid)?;
        compare("the plain database", self.server.plain_keys().await?, plain)?;
        payer.replay_some().await;
        compare("the store", self.records(StateName::Completed).await?, paid)
    }

    async fn records(self, state: StateName) -> Result<u64, Failed> {
        self.server.records(PREFIX, state as u8).await
    }
}
