//! TLS to the upstream: who is trusted, and what is offered.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use onceward::BoxError;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::target::{Scheme, Target};

/// Whom an `https` upstream is trusted by. There is no way to trust everybody.
#[derive(Clone, Default, Debug)]
pub struct TlsSettings {
    /// A PEM file of certificate authorities, trusted instead of the system's.
    pub ca_file: Option<PathBuf>,
}

/// Why TLS to the upstream cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file of certificate authorities cannot be read.
    #[error("the CA file {} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: BoxError,
    },

    /// The file of certificate authorities holds none.
    #[error("the CA file {} holds no certificate", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },

    /// The system's certificate authorities are not where they usually are.
    #[error("the system has no certificate authorities")]
    NoSystemRoots {
        /// The first reason the system gave, if any.
        #[source]
        source: Option<BoxError>,
    },

    /// The host cannot stand in a certificate.
    #[error("the upstream's host cannot be verified by a certificate")]
    Host {
        /// Why.
        #[source]
        source: BoxError,
    },

    /// The TLS library refused the settings.
    #[error("TLS cannot be set up")]
    Setup {
        /// Why.
        #[source]
        source: BoxError,
    },
}

/// Makes TLS of a connection, for one host.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) connector: TlsConnector,
    pub(super) host: ServerName<'static>,
}

// === impl Tls ===

impl Tls {
    /// Returns what `target` needs: nothing when it is plain.
    pub(super) fn of(target: &Target, settings: &TlsSettings) -> Result<Option<Self>, TlsError> {
        if target.scheme() == Scheme::Plain {
            return Ok(None);
        }
        let host =
            ServerName::try_from(target.host().to_owned()).map_err(|error| TlsError::Host {
                source: error.into(),
            })?;
        let roots = match &settings.ca_file {
            Some(path) => roots_of(path)?,
            None => system_roots()?,
        };
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Setup {
                source: error.into(),
            })?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        Ok(Some(Self { connector, host }))
    }
}

fn roots_of(path: &Path) -> Result<RootCertStore, TlsError> {
    let unreadable = |source: BoxError| TlsError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut roots = RootCertStore::empty();
    for certificate in
        CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.into()))?
    {
        let certificate = certificate.map_err(|error| unreadable(error.into()))?;
        roots
            .add(certificate)
            .map_err(|error| unreadable(error.into()))?;
    }
    if roots.is_empty() {
        let path = path.to_owned();
        return Err(TlsError::Empty { path });
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Systems ship some that are too old to be understood; the others serve.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let source = found.errors.into_iter().next().map(BoxError::from);
        return Err(TlsError::NoSystemRoots { source });
    }
    Ok(roots)
}

// === impl TlsError ===

impl TlsError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } | Self::Empty { .. } => {
                "point it at a PEM file with at least one CERTIFICATE that this user can read"
            }
            Self::NoSystemRoots { .. } => {
                "install the system's CA certificates, or name a CA file for the upstream"
            }
            Self::Host { .. } => "use the name or address that stands in its certificate",
            Self::Setup { .. } => "this is a fault of the gateway: report it with this text",
        }
    }
}
