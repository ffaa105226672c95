//! Connecting: to a server, to the one that the sentinels name, to the nodes of a cluster.

use std::fs;
use std::path::Path;
use std::time::Duration;

use onceward::bugs::{Bug, seeded};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo,
    IntoConnectionInfo as _, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError,
    TlsCertificates, Value,
};
use rustls::crypto::{CryptoProvider, ring};
use tokio::sync::mpsc;

use super::SERVER;
use super::settings::{Host, Servers, Settings};
use super::trouble::{refusal, words};
use crate::OpenError;

/// What makes connections.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) settings: Settings,
    tls: Option<TlsCertificates>,
}

/// A connection to a server that takes writes.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) connection: MultiplexedConnection,
    /// Who is at its end.
    pub(super) host: Host,
    /// Says so when the connection is lost.
    pub(super) gone: mpsc::UnboundedReceiver<PushInfo>,
}

// === impl Connector ===

impl Connector {
    /// How long a server may take to accept a connection, and to say who it is.
    const PATIENCE: Duration = Duration::from_secs(1);

    /// Returns a connector that has read the files of TLS.
    pub(super) fn new(settings: Settings) -> Result<Self, OpenError> {
        let tls = match settings.has_tls {
            true => Some(certificates(&settings)?),
            false => None,
        };
        Ok(Self { settings, tls })
    }

    /// Connects to a server that is to be written to: to `host`, or to the one that the sentinels
    /// name today.
    pub(super) async fn connect(&self, host: &Host) -> Result<Session, OpenError> {
        match &self.settings.servers {
            Servers::Sentinels(service) => self.connect_by_sentinels(service).await,
            Servers::One | Servers::Cluster => self.connect_to(host.clone()).await,
        }
    }

    /// Connects to the server that a sentinel names. One that names a server that is gone, or is
    /// a replica by now, has not heard of the new one yet: then the next is asked.
    async fn connect_by_sentinels(&self, service: &str) -> Result<Session, OpenError> {
        let mut failure = None;
        let mut why = "none was given".to_owned();
        for sentinel in &self.settings.hosts {
            match self.ask_sentinel(sentinel, service).await {
                Ok(Some(host)) => match self.connect_to(host).await {
                    Ok(session) => return Ok(session),
                    Err(error) => failure = Some(error),
                },
                Ok(None) => why = format!("{sentinel} knows no service {service}"),
                Err(error) => why = format!("{sentinel}: {}", words(&error)),
            }
        }
        Err(failure.unwrap_or_else(|| OpenError::Unreachable {
            server: SERVER,
            place: self.settings.place(),
            source: format!("no sentinel names a server: {why}").into(),
        }))
    }

    async fn connect_to(&self, host: Host) -> Result<Session, OpenError> {
        let (told, gone) = mpsc::unbounded_channel();
        let client = self.client(&host, true)?;
        let config = self.config().set_push_sender(told);
        let connected = client
            .get_multiplexed_async_connection_with_config(&config)
            .await;
        let refused = |error: RedisError| refusal(&self.settings, &error);
        let mut connection = connected.map_err(refused)?;
        if self.settings.servers != Servers::Cluster && !seeded(Bug::ReplicaAccepted) {
            self.check_role(&mut connection).await?;
        }
        Ok(Session {
            connection,
            host,
            gone,
        })
    }

    /// Connects to a server for a question or two.
    pub(super) async fn visit(&self, host: &Host) -> Result<MultiplexedConnection, RedisError> {
        let client = self.plain_client(host, true)?;
        client
            .get_multiplexed_async_connection_with_config(&self.config())
            .await
    }

    /// Connects to a server to listen to it.
    pub(super) async fn listen(&self, host: &Host) -> Result<PubSub, RedisError> {
        self.plain_client(host, true)?.get_async_pubsub().await
    }

    async fn ask_sentinel(
        &self,
        sentinel: &Host,
        service: &str,
    ) -> Result<Option<Host>, RedisError> {
        let client = self.plain_client(sentinel, false)?;
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&self.config())
            .await?;
        let mut question = redis::cmd("SENTINEL");
        question.arg("get-master-addr-by-name").arg(service);
        let named: Option<(String, u16)> = question.query_async(&mut connection).await?;
        Ok(named.map(|(name, port)| Host { name, port }))
    }

    /// Sees that the server takes writes. One that may not be asked is believed: it refuses
    /// writes by itself.
    async fn check_role(&self, connection: &mut MultiplexedConnection) -> Result<(), OpenError> {
        let role = connection.send_packed_command(&redis::cmd("ROLE")).await;
        let role = role.map_err(|error| refusal(&self.settings, &error))?;
        match role {
            Value::Array(parts) if !is_master(parts.first()) => Err(OpenError::ReadOnly {
                server: SERVER,
                place: self.settings.place(),
            }),
            _ => Ok(()),
        }
    }

    fn config(&self) -> AsyncConnectionConfig {
        // Answers are waited for by whoever asks, until its own deadline.
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Self::PATIENCE.min(self.settings.timeout)))
            .set_response_timeout(Some(self.settings.timeout))
    }

    fn client(&self, host: &Host, is_server: bool) -> Result<Client, OpenError> {
        let client = self.plain_client(host, is_server);
        client.map_err(|error| refusal(&self.settings, &error))
    }

    fn plain_client(&self, host: &Host, is_server: bool) -> Result<Client, RedisError> {
        let settings = &self.settings;
        let name = host.name.clone();
        let addr = match settings.has_tls {
            false => ConnectionAddr::Tcp(name, host.port),
            true => ConnectionAddr::TcpTls {
                host: name,
                port: host.port,
                insecure: false,
                tls_params: None,
            },
        };
        let mut redis = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name("onceward", env!("CARGO_PKG_VERSION"));
        let password = match is_server {
            true => settings.password(),
            false => Settings::sentinel_password(),
        };
        if let Some(password) = password {
            redis = redis.set_password(password);
        }
        if is_server {
            redis = redis.set_db(settings.database);
            if let Some(user) = &settings.user {
                redis = redis.set_username(user);
            }
        }
        let info: ConnectionInfo = addr.into_connection_info()?;
        let info = info.set_redis_settings(redis);
        match &self.tls {
            Some(tls) => Client::build_with_tls(info, tls.clone()),
            None => Client::open(info),
        }
    }
}

// === impl Session ===

impl Session {
    /// Asks something and waits for the answer.
    pub(super) async fn ask(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        self.connection.send_packed_command(command).await
    }
}

/// Whether the first part of a role says that it is one that is written to.
fn is_master(role: Option<&Value>) -> bool {
    match role {
        Some(Value::BulkString(name)) => name == b"master",
        Some(Value::SimpleString(name)) => name == "master",
        // Whatever else it says, it does not say that it is a replica.
        _ => true,
    }
}

/// Reads the files of TLS.
fn certificates(settings: &Settings) -> Result<TlsCertificates, OpenError> {
    if CryptoProvider::get_default().is_none() {
        // Somebody else may have been quicker, with the same one.
        let _ = ring::default_provider().install_default();
    }
    let read = |path: &Path| {
        fs::read(path).map_err(|error| OpenError::Tls {
            server: SERVER,
            place: settings.place(),
            why: format!("{}: {error}", path.display()),
        })
    };
    let files = &settings.tls;
    let client_tls = match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => Some(ClientTlsConfig {
            client_cert: read(cert)?,
            client_key: read(key)?,
        }),
        _ => None,
    };
    Ok(TlsCertificates {
        client_tls,
        root_cert: files.root.as_deref().map(read).transpose()?,
    })
}
