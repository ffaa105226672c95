//! TLS to the server, with what libpq's parameters mean there.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::SERVER;
use super::Settings;
use super::settings::Verify;
use crate::OpenError;

/// Looks at as much of a certificate as the settings ask for.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// Who is believed; nobody where nothing is looked at.
    signers: Option<Arc<WebPkiServerVerifier>>,
    /// Those that `sslrootcert` names: one of them may be the server's own.
    named: Vec<CertificateDer<'static>>,
    any_name: bool,
}

/// Returns what makes TLS connections by these settings.
pub(super) fn connector(settings: &Settings) -> Result<MakeRustlsConnect, OpenError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let named = named(settings)?;
    let signers = match settings.verify {
        Verify::Nothing => None,
        Verify::Signature | Verify::Host => {
            let roots = roots(settings, &named)?;
            let signers =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
            let signers = signers.build().map_err(|error| wrong(settings, error))?;
            Some(signers)
        }
    };
    let verifier = Verifier {
        provider: Arc::clone(&provider),
        signers,
        named,
        any_name: settings.verify != Verify::Host,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(settings, error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match (&settings.tls.cert, &settings.tls.key) {
        (Some(cert), Some(key)) => {
            let chain = certificates(settings, cert)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| unreadable(settings, key, error))?;
            let config = builder.with_client_auth_cert(chain, key);
            config.map_err(|error| wrong(settings, error))?
        }
        _ => builder.with_no_client_auth(),
    };
    // What libpq says of itself, and servers insist on with `sslnegotiation=direct`.
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(MakeRustlsConnect::new(config))
}

/// Returns what TLS found wrong in an error of the driver, if it was TLS.
pub(super) fn words(error: &tokio_postgres::Error) -> Option<String> {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(next) = cause {
        let inner = next
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let inner = inner.and_then(|inner| inner.downcast_ref());
        if let Some(found) = inner.or_else(|| next.downcast_ref()) {
            return Some(explain(found));
        }
        cause = next.source();
    }
    None
}

fn explain(error: &rustls::Error) -> String {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForNameContext, UnknownIssuer,
    };
    match error {
        rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature) => {
            "nobody who is trusted has signed the server's certificate".to_owned()
        }
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => {
            "the server's certificate has expired".to_owned()
        }
        rustls::Error::InvalidCertificate(NotValidForNameContext { expected, .. }) => {
            let name = expected.to_str();
            format!("the server's certificate is not that of {name}")
        }
        rustls::Error::AlertReceived(alert) => {
            format!("the server broke it off with the alert {alert:?}")
        }
        error => error.to_string(),
    }
}

/// Reads the roots that the settings name.
fn named(settings: &Settings) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    match &settings.tls.root {
        Some(path) if path.as_os_str() != "system" => certificates(settings, path),
        _ => Ok(Vec::new()),
    }
}

/// Returns the roots that are named, or those of the system.
fn roots(
    settings: &Settings,
    named: &[CertificateDer<'static>],
) -> Result<RootCertStore, OpenError> {
    let mut roots = RootCertStore::empty();
    if named.is_empty() {
        // Those that cannot be read are missing, which shows where one of them is needed.
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
    }
    for certificate in named {
        let added = roots.add(certificate.clone());
        added.map_err(|error| wrong(settings, error))?;
    }
    Ok(roots)
}

fn certificates(
    settings: &Settings,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(settings, path, error))?;
    match found.is_empty() {
        true => Err(unreadable(settings, path, "there is no certificate in it")),
        false => Ok(found),
    }
}

fn unreadable(settings: &Settings, path: &Path, error: impl std::fmt::Display) -> OpenError {
    wrong(settings, format!("{}: {error}", path.display()))
}

fn wrong(settings: &Settings, why: impl std::fmt::Display) -> OpenError {
    OpenError::Tls {
        server: SERVER,
        place: settings.place(),
        why: why.to_string(),
    }
}

// === impl Verifier ===

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(signers) = &self.signers else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified =
            signers.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let verified = match verified {
            // Usual with PostgreSQL: a certificate that signed itself, and is its own root.
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(why)))
                if format!("{why:?}").contains("CaUsedAsEndEntity")
                    && self.named.iter().any(|root| root == end_entity) =>
            {
                let parsed = ParsedCertificate::try_from(end_entity)?;
                let named = verify_server_name(&parsed, server_name);
                named.map(|()| ServerCertVerified::assertion())
            }
            verified => verified,
        };
        match verified {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.any_name => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
