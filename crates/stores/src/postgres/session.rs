//! Sessions: connections to a server that was looked at, and that are driven by hand.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::SERVER;
use super::doubts::gave_up_waiting;
use super::durability::{Found, QUESTION};
use super::sql::{self, RAW_MICROS, Statements};
use super::trouble::{Trouble, is_end, refusal};
use super::{Settings, tls};
use crate::OpenError;

/// Makes sessions by one set of settings.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) settings: Settings,
    pub(super) statements: Arc<Statements>,
    tls: MakeRustlsConnect,
}

/// A connection to a server that takes writes.
pub(super) struct Session {
    pub(super) client: Client,
    /// What the server said about itself.
    pub(super) about: About,
    /// The server warned that what it did may not be where it should be.
    doubt: Arc<AtomicBool>,
    /// Ends with the connection.
    pub(super) gone: oneshot::Receiver<String>,
    driver: JoinHandle<()>,
    tls: MakeRustlsConnect,
}

/// What a server says about itself when a session begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct About {
    /// Its version, as 150004.
    pub(super) version: i32,
    /// Which cluster it is a server of, where the role may know.
    pub(super) system: Option<String>,
    /// How often the cluster has failed over.
    pub(super) timeline: Option<String>,
    pub(super) pid: i32,
    /// Its clock, and when it was asked for.
    pub(super) raw: i64,
}

/// The statements of a lane, prepared.
pub(super) struct Prepared {
    pub(super) insert: Statement,
    pub(super) insert_one: Statement,
    pub(super) replace: Statement,
    pub(super) replace_one: Statement,
    pub(super) remove: Statement,
    pub(super) read: Statement,
}

// === impl Connector ===

impl Connector {
    /// How long connecting may take: a server that comes back is noticed within seconds, also
    /// where an earlier try still hangs.
    const PATIENCE: Duration = Duration::from_secs(3);

    /// The oldest server that is spoken to.
    const OLDEST: i32 = 13;

    pub(super) fn new(settings: Settings) -> Result<Self, OpenError> {
        Ok(Self {
            tls: tls::connector(&settings)?,
            statements: Arc::new(Statements::new(&settings)),
            settings,
        })
    }

    /// Connects to the first of the servers that takes writes. What it tells unasked goes to
    /// `told`.
    pub(super) async fn connect(
        &self,
        told: Option<mpsc::UnboundedSender<(i32, String)>>,
    ) -> Result<Session, OpenError> {
        let within = self.settings.timeout.min(Self::PATIENCE);
        let mut refused = silent(&self.settings);
        for (config, share) in self.settings.turns(within) {
            let session = tokio::time::timeout(share, self.begin(config, told.clone()));
            match session.await {
                Ok(Ok(session)) => return Ok(session),
                // Of several, one that says what is wrong counts more than one that is away.
                Ok(Err(error)) if matches!(refused, OpenError::Unreachable { .. }) => {
                    refused = error;
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
        Err(refused)
    }

    /// Connects to one server, and sees that it takes writes.
    async fn begin(
        &self,
        config: Config,
        told: Option<mpsc::UnboundedSender<(i32, String)>>,
    ) -> Result<Session, OpenError> {
        let refused = |error| refusal(&self.settings, &error);
        let (client, connection) = config.connect(self.tls.clone()).await.map_err(refused)?;
        self.check_version(connection.parameter("server_version").unwrap_or(""))?;
        let doubt = Arc::new(AtomicBool::new(false));
        let (end, gone) = oneshot::channel();
        let driver = tokio::spawn(drive(connection, Arc::clone(&doubt), told, end));
        let mut session = Session {
            client,
            about: About::unknown(),
            doubt,
            gone,
            driver,
            tls: self.tls.clone(),
        };
        let client = &session.client;
        let own = sql::session(&self.settings);
        client.batch_execute(&own).await.map_err(refused)?;
        session.about = self.ask(client).await?;
        Ok(session)
    }

    fn check_version(&self, version: &str) -> Result<(), OpenError> {
        let digits = |it: &&str| !it.is_empty();
        let mut numbers = version
            .split(|it: char| !it.is_ascii_digit())
            .filter(digits);
        let major = numbers.next().and_then(|it| it.parse::<i32>().ok());
        match major {
            Some(major) if major < Self::OLDEST => Err(OpenError::TooOld {
                server: SERVER,
                place: self.settings.place(),
                found: version.to_owned(),
                oldest: Self::OLDEST,
            }),
            _ => Ok(()),
        }
    }

    async fn ask(&self, client: &Client) -> Result<About, OpenError> {
        let refused = |error: tokio_postgres::Error| refusal(&self.settings, &error);
        let question = format!(
            "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool,
                    current_setting('server_version_num')::int, pg_backend_pid(), {RAW_MICROS}"
        );
        let row = client.query_one(&question, &[]).await.map_err(refused)?;
        if row.try_get::<_, bool>(0).map_err(refused)? {
            return Err(OpenError::ReadOnly {
                server: SERVER,
                place: self.settings.place(),
            });
        }
        Ok(About {
            version: row.try_get(1).map_err(refused)?,
            pid: row.try_get(2).map_err(refused)?,
            raw: row.try_get(3).map_err(refused)?,
            system: self.one(client, SYSTEM).await?,
            timeline: self.one(client, TIMELINE).await?,
        })
    }

    /// A text that not every role may read, and not every server has. A connection that ends over
    /// it says nothing about that.
    async fn one(&self, client: &Client, question: &str) -> Result<Option<String>, OpenError> {
        let answer = client.query_one(question, &[]).await;
        match answer.and_then(|row| row.try_get(0)) {
            Ok(text) => Ok(text),
            Err(error) if is_end(&error) => Err(refusal(&self.settings, &error)),
            Err(_) => Ok(None),
        }
    }
}

/// Waits for what a server is asked that has let this program in, as long as a call may take: it may
/// still fall silent.
pub(super) async fn in_time<T>(
    settings: &Settings,
    asked: impl Future<Output = Result<T, OpenError>>,
) -> Result<T, OpenError> {
    let answered = tokio::time::timeout(settings.timeout, asked).await;
    answered.unwrap_or_else(|_| Err(silent(settings)))
}

fn silent(settings: &Settings) -> OpenError {
    OpenError::Unreachable {
        server: SERVER,
        place: settings.place(),
        source: "it did not answer in time".into(),
    }
}

/// Asks which cluster it is.
const SYSTEM: &str = "SELECT system_identifier::text FROM pg_control_system()";

/// Asks how often the cluster has failed over.
const TIMELINE: &str = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)";

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Connector").field(&self.settings).finish()
    }
}

// === impl About ===

impl About {
    pub(super) fn unknown() -> Self {
        Self {
            version: 0,
            system: None,
            timeline: None,
            pid: 0,
            raw: 0,
        }
    }
}

// === impl Session ===

impl Session {
    /// Prepares the statements of a lane, and looks at the settings that say what a write survives.
    pub(super) async fn ready(&self, connector: &Connector) -> Result<(Prepared, Found), Trouble> {
        let ready = async {
            tokio::try_join!(
                self.prepare(&connector.statements),
                self.look(&connector.settings)
            )
        };
        let ready = tokio::time::timeout(connector.settings.timeout, ready).await;
        ready.map_err(|_| Trouble::lost("the server did not answer in time"))?
    }

    /// Prepares the statements of a lane.
    pub(super) async fn prepare(&self, texts: &Statements) -> Result<Prepared, Trouble> {
        let client = &self.client;
        let prepared = tokio::try_join!(
            client.prepare(&texts.insert),
            client.prepare(&texts.insert_one),
            client.prepare(&texts.replace),
            client.prepare(&texts.replace_one),
            client.prepare(&texts.remove),
            client.prepare(&texts.read),
        );
        let (insert, insert_one, replace, replace_one, remove, read) =
            prepared.map_err(|error| Trouble::of(&error))?;
        Ok(Prepared {
            insert,
            insert_one,
            replace,
            replace_one,
            remove,
            read,
        })
    }

    async fn look(&self, settings: &Settings) -> Result<Found, Trouble> {
        let row = self.client.query_one(QUESTION, &[]).await;
        let found = row.and_then(|row| Found::read(&row, !settings.promotes));
        found.map_err(|error| Trouble::of(&error))
    }

    /// Whether the server warned since this was last asked that what it did may not be safe.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.doubt.load(Ordering::Acquire) && self.doubt.swap(false, Ordering::AcqRel)
    }

    /// Asks the server to stop what it does for this session: as well as one can, for a server
    /// that has fallen silent may not hear it.
    pub(super) fn cancel(&self) {
        const WITHIN: Duration = Duration::from_secs(1);
        let token = self.client.cancel_token();
        let tls = self.tls.clone();
        tokio::spawn(async move {
            let _ = tokio::time::timeout(WITHIN, token.cancel_query(tls)).await;
        });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Drives a connection until its end. Notices are looked at, for one of them says that a commit
/// did not wait for the standby that it should have waited for.
async fn drive<S, T>(
    mut connection: Connection<S, T>,
    doubt: Arc<AtomicBool>,
    told: Option<mpsc::UnboundedSender<(i32, String)>>,
    end: oneshot::Sender<String>,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let why = loop {
        match poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notice(notice))) => {
                if gave_up_waiting(&notice) {
                    doubt.store(true, Ordering::Release);
                }
                tracing::warn!(notice = notice.message(), "PostgreSQL warns");
            }
            Some(Ok(AsyncMessage::Notification(note))) => {
                if let Some(told) = &told {
                    // Nobody listens once the store is closed.
                    let _ = told.send((note.process_id(), note.payload().to_owned()));
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => break super::trouble::words(&error),
            None => break "the connection was closed".to_owned(),
        }
    };
    let _ = end.send(why);
}
