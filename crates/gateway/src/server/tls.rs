//! TLS: the certificate and key that the server shows.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::BoxError;

/// Why a certificate and a key cannot be served with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A file is no PEM.
    #[error("{} is not valid PEM", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where reading stopped.
        source: BoxError,
    },

    /// The certificate file holds none.
    #[error("{} holds no certificate", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },

    /// The key file holds none.
    #[error("{} holds no private key", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },

    /// The key is another certificate's.
    #[error("the key in {} does not belong to the first certificate in {}", key.display(), cert.display())]
    Mismatch {
        /// The certificate file.
        cert: PathBuf,
        /// The key file.
        key: PathBuf,
    },

    /// The pair cannot be used.
    #[error("cannot serve with {} and {}", cert.display(), key.display())]
    Unusable {
        /// The certificate file.
        cert: PathBuf,
        /// The key file.
        key: PathBuf,
        /// What the TLS library said.
        source: rustls::Error,
    },
}

// === impl TlsError ===

impl TlsError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "check the path, and that this user may read it",
            Self::Malformed { .. } => "convert it to PEM, or export it again",
            Self::NoCertificate { .. } => {
                "it needs a BEGIN CERTIFICATE section, the server's own certificate first"
            }
            Self::NoKey { .. } => "it needs a BEGIN PRIVATE KEY section that is not encrypted",
            Self::Mismatch { .. } => "give the certificate and the key that were made together",
            Self::Unusable { .. } => {
                "use an RSA, ECDSA or Ed25519 key and an X.509 version 3 certificate"
            }
        }
    }
}

/// Reads a certificate chain and its key from PEM files, for TLS 1.2 and 1.3 and for HTTP/2 and
/// HTTP/1.1, in this order of preference.
pub fn tls(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| TlsError::of_pem(cert, error))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { path: cert.into() });
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey { path: key.into() },
        error => TlsError::of_pem(key, error),
    })?;
    config(chain, secret).map_err(|source| match source {
        rustls::Error::InconsistentKeys(_) => TlsError::Mismatch {
            cert: cert.into(),
            key: key.into(),
        },
        source => TlsError::Unusable {
            cert: cert.into(),
            key: key.into(),
            source,
        },
    })
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    secret: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    // Named here, for the process-wide default depends on what else is linked.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, secret)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

// === impl TlsError ===

impl TlsError {
    fn of_pem(path: &Path, error: pem::Error) -> Self {
        let path = path.into();
        match error {
            pem::Error::Io(source) => Self::Unreadable { path, source },
            error => Self::Malformed {
                path,
                source: error.into(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Files(tempfile::TempDir);

    impl Files {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn put(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        }
    }

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_pair_is_served_with_both_protocols() {
        let (files, (cert, key)) = (Files::new(), pair());
        let config = tls(&files.put("c", &cert), &files.put("k", &key)).unwrap();
        assert_eq!(
            config.alpn_protocols,
            [b"h2".to_vec(), b"http/1.1".to_vec()]
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let (files, (_, key)) = (Files::new(), pair());
        let missing = files.0.path().join("absent.pem");
        let error = tls(&missing, &files.put("k", &key)).unwrap_err();
        assert!(matches!(&error, TlsError::Unreadable { path, .. } if *path == missing));
        assert!(error.to_string().contains("absent.pem"));
    }

    #[test]
    fn files_given_in_the_wrong_order_are_found_out() {
        let (files, (cert, key)) = (Files::new(), pair());
        let (cert, key) = (files.put("c", &cert), files.put("k", &key));
        let swapped = tls(&key, &cert).unwrap_err();
        assert!(
            matches!(swapped, TlsError::NoCertificate { .. }),
            "{swapped:?}"
        );
        let twice = tls(&cert, &cert).unwrap_err();
        assert!(matches!(twice, TlsError::NoKey { .. }), "{twice:?}");
    }

    #[test]
    fn the_key_of_another_certificate_is_refused() {
        let (files, (cert, _), (_, other)) = (Files::new(), pair(), pair());
        let error = tls(&files.put("c", &cert), &files.put("k", &other)).unwrap_err();
        assert!(matches!(error, TlsError::Mismatch { .. }), "{error:?}");
    }

    #[test]
    fn a_cut_file_is_malformed() {
        let (files, (cert, key)) = (Files::new(), pair());
        let cut = &cert[..cert.len() / 2];
        let error = tls(&files.put("c", cut), &files.put("k", &key)).unwrap_err();
        assert!(matches!(error, TlsError::Malformed { .. }), "{error:?}");
    }
}
