//! Keys inside the caller's own transaction, beside the same transaction without one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onceward::{BoxError, Fingerprint, Key, Outcome, Policy, Scope, Slot};
use onceward_stores::StoreUrl;
use onceward_stores::postgres::{Checkout, Connection, PostgresStore, Transactional};
use tokio_postgres::{Client, Statement};

use super::cores::{Cores, Placement};
use super::server::Server;
use crate::Failed;
use crate::figures::{self, Pair, Pairs};
use crate::load::Load;
use crate::payer::compare;
use crate::plan::Plan;
use crate::report::{Report, rounded};

/// How many callers there are, each with a connection; where they and the server run; and what is
/// asked of them there.
const ROWS: [Row; 3] = [
    Row {
        callers: 1,
        placement: Placement::Apart,
        goal: Some("p50 <= 1.30x"),
        name: "transaction_1",
        title: "1, a core each",
        ratio: Some("transaction_ratio"),
    },
    Row {
        callers: 1,
        placement: Placement::Anywhere,
        goal: None,
        name: "transaction_1_unpinned",
        title: "1, anywhere",
        ratio: Some("transaction_ratio_unpinned"),
    },
    Row {
        callers: 16,
        placement: Placement::Anywhere,
        goal: None,
        name: "transaction_16",
        title: "16, anywhere",
        ratio: None,
    },
];

/// Into how many a round is cut, so that both sides meet the same machine.
const TURNS: u32 = 4;

/// The business: a ledger, and the balances that its entries come to.
const TABLES: &str = "
    CREATE TABLE ledger (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        account integer NOT NULL,
        amount bigint NOT NULL
    );
    CREATE TABLE accounts (id integer PRIMARY KEY, balance bigint NOT NULL);
    INSERT INTO accounts SELECT number, 0 FROM generate_series(1, 1000) AS number;
    ANALYZE accounts;
";
const ACCOUNTS: i32 = 1_000;
const ENTER: &str = "INSERT INTO ledger (account, amount) VALUES ($1, 1)";
const CHARGE: &str = "UPDATE accounts SET balance = balance + 1 WHERE id = $1";

/// Where each charge must have left its traces.
const ENTERED: &str = "SELECT count(*) FROM ledger";
const CHARGED: &str = "SELECT sum(balance)::bigint FROM accounts";
const PAID: &str = "SELECT count(*) FROM transactions.records
    WHERE operation = 'POST /charges' AND state = 2";

/// One line of the table.
#[derive(Debug, Clone, Copy)]
struct Row {
    callers: usize,
    placement: Placement,
    goal: Option<&'static str>,
    /// What the names of its figures begin with.
    name: &'static str,
    title: &'static str,
    /// The name of the figure that tells it in one number.
    ratio: Option<&'static str>,
}

/// A caller's own connection, with its statements prepared.
#[derive(Debug)]
struct Desk {
    connection: Arc<Connection>,
    enter: Statement,
    charge: Statement,
}

/// Everything that a caller needs.
#[derive(Debug, Clone)]
struct Business {
    keys: Transactional,
    desks: Arc<[Desk]>,
    /// The number in the next key.
    next: Arc<AtomicU64>,
    outcome: Outcome,
}

/// Measures both sides in turn; the median ratio counts.
pub(crate) async fn run(
    report: &mut Report,
    server: &Server,
    settings: &str,
    plan: Plan,
) -> Result<(), Failed> {
    server.execute(TABLES).await?;
    let business = Business::start(server, settings).await?;
    figures::table(
        report,
        "one insert and one update with a key, beside the bare transaction, in turn",
        "callers",
        "bare",
    );
    let cores = Cores::find()?;
    if cores.is_none() {
        eprintln!("there is one core: caller and server cannot be kept apart");
    }
    let mut bare = 0;
    for callers in [1, 16] {
        eprintln!("transactions, {callers} callers");
        let rows: Vec<_> = ROWS.iter().filter(|row| row.callers == callers).collect();
        let has_goal = rows.iter().any(|row| row.goal.is_some());
        let plan = if has_goal { plan.thorough() } else { plan };
        bare += business.warm(callers, plan).await;
        let plan = plan.finer(TURNS);
        let mut pairs = vec![Vec::new(); rows.len()];
        // Placements take turns as well, so that all of them meet the same machine.
        for round in 0..plan.rounds {
            for (row, pairs) in rows.iter().zip(&mut pairs) {
                // What stands beside a figure with a goal is measured half as often.
                if has_goal && row.goal.is_none() && round % 2 == 1 {
                    continue;
                }
                if let Some(cores) = &cores {
                    cores.place(row.placement, server.process.id())?;
                }
                let theirs = business.bare(callers, plan.span).await;
                bare += theirs.latency.len();
                let ours = business.keyed(callers, plan.span).await;
                pairs.push(Pair {
                    ours: ours.into(),
                    theirs: theirs.into(),
                });
            }
        }
        if let Some(cores) = &cores {
            cores.place(Placement::Anywhere, server.process.id())?;
        }
        for (row, pairs) in rows.iter().zip(pairs) {
            row.report(report, &Pairs::new(pairs));
        }
    }
    let keyed = business.next.load(Ordering::Relaxed);
    compare("the store", server.count(PAID).await?, keyed)?;
    compare("the ledger", server.count(ENTERED).await?, keyed + bare)?;
    compare("the balances", server.count(CHARGED).await?, keyed + bare)?;
    business.again(keyed).await;
    compare("the ledger", server.count(ENTERED).await?, keyed + bare)
}

// === impl Row ===

impl Row {
    fn report(&self, report: &mut Report, pairs: &Pairs) {
        let goal = self.goal.unwrap_or_default();
        let cells = [self.title, goal].map(str::to_owned);
        pairs.report(report, self.name, "bare", cells);
        if let Some(ratio) = self.ratio {
            report.value(ratio, rounded(pairs.latency()));
        }
    }
}

// === impl Business ===

impl Business {
    async fn start(server: &Server, settings: &str) -> Result<Self, Failed> {
        let url: StoreUrl = server.store("transactions", settings).parse()?;
        let StoreUrl::Postgres(settings) = url else {
            return Err("the store is on a server".into());
        };
        let opened = tokio::task::spawn_blocking(move || PostgresStore::open(*settings)).await?;
        let store = opened.map_err(|error| format!("{error}; hint: {}", error.hint()))?;
        let keys = Transactional::new(&store, Policy::default()).await?;
        let most = ROWS.map(|row| row.callers).into_iter().max();
        let mut desks = Vec::new();
        for _ in 0..most.unwrap_or(1) {
            desks.push(Desk::open(server).await?);
        }
        Ok(Self {
            keys,
            desks: desks.into(),
            next: Arc::new(AtomicU64::new(0)),
            outcome: Outcome::success(vec![7; 300]),
        })
    }

    /// Does both before anything is measured: statements are planned, tables have pages. Returns
    /// the number of bare transactions.
    async fn warm(&self, callers: usize, plan: Plan) -> u64 {
        let bare = self.bare(callers, plan.warm).await;
        self.keyed(callers, plan.warm).await;
        bare.latency.len()
    }

    /// Keeps `callers` busy with the bare transaction.
    async fn bare(&self, callers: usize, span: Duration) -> Load {
        let business = self.clone();
        let charge = move |caller, _| {
            let business = business.clone();
            async move { business.charge(caller).await }
        };
        Load::run(callers, span, charge).await
    }

    /// Keeps `callers` busy with the same under new keys.
    async fn keyed(&self, callers: usize, span: Duration) -> Load {
        let business = self.clone();
        let charge = move |caller, _| {
            let business = business.clone();
            async move { business.charge_once(caller).await }
        };
        Load::run(callers, span, charge).await
    }

    /// The bare transaction.
    async fn charge(&self, caller: usize) {
        let desk = &self.desks[caller];
        let charged = async {
            desk.connection.batch_execute("BEGIN").await?;
            desk.work(&desk.connection, account()).await?;
            desk.connection.batch_execute("COMMIT").await
        };
        charged.await.expect("the server commits");
    }

    /// The same with a new key.
    async fn charge_once(&self, caller: usize) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let replayed = self.charge_under(number, caller).await;
        assert!(!replayed, "a new key is executed");
    }

    /// Charges unless it was done under this key before, and returns whether it was.
    async fn charge_under(&self, number: u64, caller: usize) -> bool {
        let desk = &self.desks[caller];
        let key = Key::parse(&format!("8e03978e-40d5-43e8-bc93-{number:012}"));
        let scope = Scope::new("acct_42", "POST /charges");
        let slot = Slot::new(scope, key.expect("printable"));
        let fingerprint = Fingerprint::of(b"{\"amount\":1}");
        let answer = self.keys.run(desk, &slot, fingerprint, |tx| async move {
            desk.work(&tx, account()).await?;
            Ok::<_, BoxError>(self.outcome.clone())
        });
        let answer = answer.await;
        let answer = answer.expect("the store answers");
        assert_eq!(answer.outcome, self.outcome);
        answer.replayed
    }

    /// What was charged is charged no second time.
    async fn again(&self, charged: u64) {
        for number in (0..charged).step_by((charged as usize / 1_000).max(1)) {
            assert!(self.charge_under(number, 0).await, "a finished key replays");
        }
    }
}

fn account() -> i32 {
    fastrand::i32(1..=ACCOUNTS)
}

// === impl Desk ===

impl Desk {
    async fn open(server: &Server) -> Result<Self, Failed> {
        let client = server.connect().await?;
        Ok(Self {
            enter: client.prepare(ENTER).await?,
            charge: client.prepare(CHARGE).await?,
            connection: Arc::new(Connection::new(client)),
        })
    }

    /// One insert and one update.
    async fn work(&self, client: &Client, account: i32) -> Result<(), tokio_postgres::Error> {
        client.execute(&self.enter, &[&account]).await?;
        client.execute(&self.charge, &[&account]).await?;
        Ok(())
    }
}

impl Checkout for Desk {
    type Given = Arc<Connection>;

    async fn checkout(&self) -> Result<Arc<Connection>, BoxError> {
        Ok(Arc::clone(&self.connection))
    }
}
