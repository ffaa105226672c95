//! Certificates that tests sign themselves, and stores that do not open with them.

use std::path::PathBuf;

use onceward_stores::{OpenError, StoreUrl};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// Who signs certificates, with a folder for its files.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) folder: TempDir,
}

/// A certificate and its key, in PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

// === impl Authority ===

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = authority(name, &[]);
        let folder = TempDir::new().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        std::fs::write(folder.path().join("root.pem"), certificate).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            folder,
        }
    }

    /// A certificate for hosts, or the role of the same name.
    pub(crate) fn sign(&self, names: &[&str], role: &str) -> Signed {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, role);
        let key = KeyPair::generate().unwrap();
        Signed {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// The file with its own certificate.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root.pem")
    }

    /// A certificate of a caller, as parameters of a URL.
    pub(crate) fn caller(&self, role: &str) -> String {
        let signed = self.sign(&[], role);
        let cert = self.folder.path().join(format!("{role}.pem"));
        let key = self.folder.path().join(format!("{role}.key"));
        std::fs::write(&cert, signed.certificate).unwrap();
        std::fs::write(&key, signed.key).unwrap();
        format!("sslcert={}&sslkey={}", cert.display(), key.display())
    }
}

/// What an authority says of itself.
pub(crate) fn authority(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// Why a store does not open. Says so on one line, and nowhere with the password.
pub(crate) fn refusal(url: &str) -> OpenError {
    let url: StoreUrl = url.parse().expect("the URL is good");
    let error = onceward_stores::open(&url).expect_err("it does not open");
    let line = error.line();
    for text in [&line, &error.hint(), &format!("{error:?} {url:?} {url}")] {
        assert!(!text.contains("s3cret"), "{text}");
    }
    assert!(!line.contains('\n'), "{line}");
    error
}
