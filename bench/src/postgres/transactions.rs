//! Keys inside the caller's own transaction, beside the same transaction without one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onceward::{BoxError, Fingerprint, Key, Outcome, Policy, Scope, Slot};
use onceward_stores::StoreUrl;
use onceward_stores::postgres::{Checkout, Connection, PostgresStore, Transactional};
use tokio_postgres::{Client, Statement};

use super::server::Server;
use crate::Failed;
use crate::figures::{self, Pair, Pairs};
use crate::load::Load;
use crate::payer::compare;
use crate::plan::Plan;
use crate::report::{Report, rounded};

/// How many callers there are, each with a connection, and what is asked of so many.
const CALLERS: [(usize, Option<&str>); 2] = [(1, Some("p50 <= 1.30x")), (16, None)];

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
    let mut bare = 0;
    for (callers, goal) in CALLERS {
        eprintln!("transactions, {callers} callers");
        let plan = if goal.is_some() {
            plan.thorough()
        } else {
            plan
        };
        bare += business.warm(callers, plan).await;
        let plan = plan.finer(TURNS);
        let mut pairs = Vec::new();
        for _ in 0..plan.rounds {
            let theirs = business.bare(callers, plan.span).await;
            bare += theirs.latency.len();
            let ours = business.keyed(callers, plan.span).await;
            pairs.push(Pair {
                ours: ours.into(),
                theirs: theirs.into(),
            });
        }
        let pairs = Pairs::new(pairs);
        let cells = [callers.to_string(), goal.unwrap_or_default().to_owned()];
        pairs.report(report, &format!("transaction_{callers}"), "bare", cells);
        if callers == 1 {
            report.value("transaction_ratio", rounded(pairs.latency()));
        }
    }
    let keyed = business.next.load(Ordering::Relaxed);
    compare("the store", server.count(PAID).await?, keyed)?;
    compare("the ledger", server.count(ENTERED).await?, keyed + bare)?;
    compare("the balances", server.count(CHARGED).await?, keyed + bare)?;
    business.again(keyed).await;
    compare("the ledger", server.count(ENTERED).await?, keyed + bare)
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
        let most = CALLERS.map(|(callers, _)| callers).into_iter().max();
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
