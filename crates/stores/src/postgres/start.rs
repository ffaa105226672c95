//! Starting and ending: the store's thread, and the same looks at a server without a store.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::TryFutureExt as _;
use onceward::Timestamp;
use onceward::clock::{Clock as _, SystemClock};
use tokio::runtime;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use super::SERVER;
use super::durability::{Found, QUESTION};
use super::guest::Guests;
use super::home::Home;
use super::hub::Hub;
use super::lane::Lane;
use super::schema::{self, KNOWN, MIGRATIONS, Migrated};
use super::session::{Connector, Session, in_time};
use super::trouble::refusal;
use super::{Settings, listen, settle, upkeep};
use crate::OpenError;
use crate::reckon::{Reckoning, as_i64, timestamp};
use crate::report::DurabilityReport;

/// The thread that a store's connections run on.
pub(super) type Thread = JoinHandle<()>;

/// The end of a store's thread.
struct End(Arc<Hub>);

/// What an inspection of a server found.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// What an acknowledged write survives there, and why.
    pub durability: DurabilityReport,
    /// The version of the schema: 0 where there is none.
    pub schema: i32,
    /// The newest version that this program knows.
    pub known: i32,
    /// The server's clock less this machine's, in microseconds.
    pub clock_ahead: i64,
    /// How long a round trip took.
    pub round_trip: Duration,
}

/// How long the connections may take to end when a store is closed.
const LINGER: Duration = Duration::from_secs(1);

/// Starts the thread of a store, and waits until it can serve.
pub(super) fn start(settings: Settings) -> Result<(Arc<Hub>, Thread), OpenError> {
    let (tell, told) = mpsc::sync_channel(1);
    let place = settings.place();
    let failed = |source: io::Error| OpenError::Server {
        server: SERVER,
        place: place.clone(),
        why: format!("no thread for it: {source}"),
    };
    let thread = thread::Builder::new()
        .name("onceward-postgres".to_owned())
        .spawn(move || {
            let runtime = match runtime_of_thread(&settings) {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = tell.send(Err(error));
                    return;
                }
            };
            runtime.block_on(async move {
                match open(settings).await {
                    Ok((hub, session)) => {
                        // If nobody waits any more, the hub is closed at once.
                        let _ = tell.send(Ok(Arc::clone(&hub)));
                        serve(hub, session).await;
                    }
                    Err(error) => drop(tell.send(Err(error))),
                }
            });
        })
        .map_err(failed)?;
    let ended = |_| OpenError::Server {
        server: SERVER,
        place: place.clone(),
        why: "the thread of the store ended".to_owned(),
    };
    Ok((told.recv().map_err(ended)??, thread))
}

/// Brings the schema up to date, whatever the settings say about doing so on opening.
///
/// Blocks until it is done.
pub fn migrate(settings: &Settings) -> Result<Migrated, OpenError> {
    let settings = settings.clone().migrate(true);
    visit(&settings, async |session, connector| {
        schema::prepare(&session.client, &connector.settings).await
    })
}

/// Returns what [`migrate`] would do: the version that is there, and each step in a few words.
///
/// Blocks until it is known.
pub fn pending(settings: &Settings) -> Result<(Migrated, Vec<&'static str>), OpenError> {
    visit(settings, async |session, connector| {
        let from = schema::version(&session.client, &connector.settings).await?;
        let steps = MIGRATIONS.iter().filter(|step| step.version > from);
        let steps = steps.map(|step| step.what).collect();
        Ok((
            Migrated {
                from,
                to: KNOWN.max(from),
            },
            steps,
        ))
    })
}

/// Looks at a server without opening a store on it: what its settings make of a write, its clock,
/// its schema.
///
/// Blocks until it is known.
pub fn inspect(settings: &Settings) -> Result<Inspection, OpenError> {
    visit(settings, async |session, connector| {
        let settings = &connector.settings;
        let found = look(&session.client, settings).await?;
        let schema = schema::version(&session.client, settings).await?;
        let question = format!("SELECT {}", super::sql::RAW_MICROS);
        let (before, wall) = (SystemClock.stopwatch(), SystemClock.wall());
        let asked = session.client.query_one(&question, &[]);
        let asked = asked.map_err(|error| refusal(settings, &error));
        let row = in_time(settings, asked).await?;
        let round_trip = SystemClock.stopwatch() - before;
        let raw: i64 = row.try_get(0).map_err(|error| refusal(settings, &error))?;
        let here = wall + round_trip / 2;
        Ok(Inspection {
            durability: found.report(),
            schema,
            known: KNOWN,
            clock_ahead: raw - as_i64(here),
            round_trip,
        })
    })
}

/// Connects, does something and leaves, on a thread of its own: a caller may be on a runtime.
fn visit<T: Send>(
    settings: &Settings,
    deed: impl AsyncFnOnce(&Session, &Connector) -> Result<T, OpenError> + Send,
) -> Result<T, OpenError> {
    let visit = || {
        let runtime = runtime_of_thread(settings)?;
        runtime.block_on(async {
            let connector = Connector::new(settings.clone())?;
            let session = connector.connect(None).await?;
            deed(&session, &connector).await
        })
    };
    thread::scope(|scope| {
        let visited = scope.spawn(visit).join();
        visited.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn runtime_of_thread(settings: &Settings) -> Result<runtime::Runtime, OpenError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|source| OpenError::Server {
        server: SERVER,
        place: settings.place(),
        why: format!("no runtime for it: {source}"),
    })
}

/// Opens the store: the first connection, the schema, the clock, the class.
async fn open(settings: Settings) -> Result<(Arc<Hub>, Session), OpenError> {
    let connector = Connector::new(settings)?;
    let session = connector.connect(None).await?;
    let settings = &connector.settings;
    schema::prepare(&session.client, settings).await?;
    let found = look(&session.client, settings).await?;
    check_rights(&session.client, settings).await?;
    let on_record = on_record(&session.client, settings).await?;
    let reckoning = Reckoning::new(Arc::new(SystemClock), session.about.raw, on_record);
    let statements = Arc::clone(&connector.statements);
    let mut home = Home::default();
    home.meet(&session.about).map_err(|why| OpenError::Server {
        server: SERVER,
        place: settings.place(),
        why,
    })?;
    let found = home.found(found);
    // Statements that the server does not take are told of now, and not by the first call.
    let prepared = session.prepare(&statements);
    let prepared = prepared.map_err(|trouble| OpenError::Server {
        server: SERVER,
        place: settings.place(),
        why: trouble.to_string(),
    });
    in_time(settings, prepared).await?;
    let hub = Hub::new(connector.clone(), reckoning, home, found.class());
    Ok((Arc::new(hub), session))
}

/// Sees that the role may do what the statements do.
async fn check_rights(client: &Client, settings: &Settings) -> Result<(), OpenError> {
    let question = "SELECT given.name || ': ' || given.need
         FROM unnest($1::text[], $2::text[]) AS given (name, need)
         WHERE NOT has_table_privilege(given.name, given.need) LIMIT 1";
    let needs = [
        ("records", "SELECT"),
        ("records", "INSERT"),
        ("records", "UPDATE"),
        ("records", "DELETE"),
        ("clock", "SELECT"),
        ("clock", "INSERT"),
        ("clock", "UPDATE"),
    ];
    let (names, needs): (Vec<_>, Vec<_>) = needs
        .iter()
        .map(|(table, need)| (settings.table(table), *need))
        .unzip();
    let parameters: [&(dyn ToSql + Sync); 2] = [&names, &needs];
    let missing = client.query_opt(question, &parameters);
    let missing = missing.map_err(|error| refusal(settings, &error));
    match in_time(settings, missing).await? {
        None => Ok(()),
        Some(row) => Err(OpenError::Rights {
            place: settings.place(),
            user: settings.user().to_owned(),
            why: format!(
                "no right to {}",
                row.try_get::<_, String>(0).unwrap_or_default()
            ),
        }),
    }
}

/// The highest time on record.
async fn on_record(client: &Client, settings: &Settings) -> Result<Timestamp, OpenError> {
    let question = format!(
        "SELECT coalesce(max(guarded), 0) FROM {}",
        settings.table("clock")
    );
    let row = client.query_one(&question, &[]);
    let row = in_time(settings, row.map_err(|error| refusal(settings, &error)));
    let micros = row.await?.try_get(0);
    micros
        .map(timestamp)
        .map_err(|error| refusal(settings, &error))
}

async fn look(client: &Client, settings: &Settings) -> Result<Found, OpenError> {
    let row = client.query_one(QUESTION, &[]);
    let row = in_time(settings, row.map_err(|error| refusal(settings, &error)));
    let found = Found::read(&row.await?, !settings.promotes);
    found.map_err(|error| refusal(settings, &error))
}

/// Serves until the store is closed.
async fn serve(hub: Arc<Hub>, session: Session) {
    let _end = End(Arc::clone(&hub));
    let mut session = Some(session);
    let connections = hub.connector.settings.connections;
    let lanes: Vec<_> = (0..connections - Guests::most(connections))
        .map(|_| {
            let lane = Lane {
                hub: Arc::clone(&hub),
            };
            tokio::spawn(lane.run(session.take()))
        })
        .collect();
    let listener = tokio::spawn(listen::run(Arc::clone(&hub)));
    let keeper = tokio::spawn(upkeep::run(Arc::clone(&hub)));
    let settler = tokio::spawn(settle::run(Arc::clone(&hub)));

    hub.closing.notified().await;
    keeper.abort();
    // The last thing that is asked for before the queue is closed.
    let _ = tokio::time::timeout(LINGER, upkeep::mark(&hub)).await;
    hub.end();
    let ended = async {
        for lane in lanes {
            // A lane that panicked has nothing left to end.
            let _ = lane.await;
        }
    };
    let _ = tokio::time::timeout(LINGER, ended).await;
    listener.abort();
    settler.abort();
}

// === impl End ===

/// Leaves nobody waiting, whatever ended the thread.
impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
        self.0.changes.end();
    }
}
