//! TLS to the server, with what libpq's parameters mean there.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Settings;
use super::settings::Verify;
use crate::OpenError;

/// Looks at as much of a certificate as the settings ask for.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// Who is believed; nobody where nothing is looked at.
    signers: Option<Arc<WebPkiServerVerifier>>,
    any_name: bool,
}

/// Returns what makes TLS connections by these settings.
pub(super) fn connector(settings: &Settings) -> Result<MakeRustlsConnect, OpenError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let signers = match settings.verify {
        Verify::Nothing => None,
        Verify::Signature | Verify::Host => {
            let roots = roots(settings)?;
            let signers =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
            let signers = signers.build().map_err(|error| wrong(settings, error))?;
            Some(signers)
        }
    };
    let verifier = Verifier {
        provider: Arc::clone(&provider),
        signers,
        any_name: settings.verify != Verify::Host,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(settings, error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let config = match (&settings.tls.cert, &settings.tls.key) {
        (Some(cert), Some(key)) => {
            let chain = certificates(settings, cert)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| unreadable(settings, key, error))?;
            let config = builder.with_client_auth_cert(chain, key);
            config.map_err(|error| wrong(settings, error))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(MakeRustlsConnect::new(config))
}

fn roots(settings: &Settings) -> Result<RootCertStore, OpenError> {
    let mut roots = RootCertStore::empty();
    match &settings.tls.root {
        Some(path) if path.as_os_str() != "system" => {
            for certificate in certificates(settings, path)? {
                let added = roots.add(certificate);
                added.map_err(|error| unreadable(settings, path, error))?;
            }
        }
        _ => {
            // Those that cannot be read are missing, which shows where one of them is needed.
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
    }
    Ok(roots)
}

fn certificates(
    settings: &Settings,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(settings, path, error))
}

fn unreadable(settings: &Settings, path: &Path, error: impl std::fmt::Display) -> OpenError {
    wrong(settings, format!("{}: {error}", path.display()))
}

fn wrong(settings: &Settings, why: impl std::fmt::Display) -> OpenError {
    OpenError::Tls {
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
