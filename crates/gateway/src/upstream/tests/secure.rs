//! TLS.

use std::io::Write;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::super::{TlsError, TlsSettings};
use super::reuse::keeps_task;
use super::{Caller, Care, OK, Peer, Settings, Target, Upstream, chain, text, until_news_at};

/// A certificate authority.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: NamedTempFile,
}

// === impl Authority ===

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(issuer.pem().as_bytes()).unwrap();
        Self { issuer, file }
    }

    fn trusted(&self) -> Settings {
        settings(self.file.path().into())
    }

    /// Returns what a server that is called `name` answers handshakes with.
    fn acceptor(&self, name: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

fn settings(ca_file: std::path::PathBuf) -> Settings {
    Settings {
        tls: TlsSettings {
            ca_file: Some(ca_file),
        },
        ..Settings::default()
    }
}

/// Returns a peer that is to speak TLS, and never gets that far.
pub(super) async fn silent_peer() -> Peer {
    let authority = Authority::new();
    Peer::with("https", "", authority.trusted()).await
}

async fn secured(peer: &Peer, acceptor: &TlsAcceptor) -> Caller<TlsStream<TcpStream>> {
    let stream = peer.accept().await.stream;
    let stream = acceptor.accept(stream).await.unwrap();
    Caller { stream }
}

#[tokio::test]
async fn a_verified_upstream_is_spoken_to_and_its_connection_used_again() {
    let authority = Authority::new();
    let acceptor = authority.acceptor("127.0.0.1");
    let peer = Peer::with("https", "", authority.trusted()).await;
    let (sent, mut caller) = tokio::join!(peer.post(Care::Fresh), async {
        let mut caller = secured(&peer, &acceptor).await;
        caller.request().await;
        caller.say(OK).await;
        caller
    });
    assert_eq!(text(sent.unwrap()).await.unwrap(), "ok");
    let alpn = caller.stream.get_ref().1.alpn_protocol();
    assert_eq!(alpn, Some(&b"http/1.1"[..]));

    let (sent, ()) = tokio::join!(peer.post(Care::Fresh), async {
        caller.request().await;
        caller.say(OK).await;
    });
    assert_eq!(text(sent.unwrap()).await.unwrap(), "ok");

    // A close of TLS is as good as one of the connection.
    caller.stream.get_mut().1.send_close_notify();
    caller.say("").await;
    until_news_at(caller.stream.get_ref().0.peer_addr().unwrap());
    let (sent, ()) = tokio::join!(peer.post(Care::Fresh), async {
        let mut caller = secured(&peer, &acceptor).await;
        caller.request().await;
        caller.say(OK).await;
    });
    assert_eq!(text(sent.unwrap()).await.unwrap(), "ok");
}

#[tokio::test]
async fn an_encrypted_connection_at_rest_keeps_nobody_alive() {
    let authority = Authority::new();
    let acceptor = authority.acceptor("127.0.0.1");
    let peer = Peer::with("https", "", authority.trusted()).await;
    let (kept, _caller) = tokio::join!(keeps_task(peer.post(Care::Any)), async {
        let mut caller = secured(&peer, &acceptor).await;
        caller.request().await;
        caller.say(OK).await;
        caller
    });
    assert_eq!(peer.at_rest(), 1);
    assert!(!kept);
}

#[tokio::test]
async fn a_connection_on_which_more_has_begun_is_not_used_again() {
    for len in [0, 1, 5, 20] {
        let authority = Authority::new();
        let acceptor = authority.acceptor("127.0.0.1");
        let peer = Peer::with("https", "", authority.trusted()).await;
        let (sent, _caller) = tokio::join!(peer.post(Care::Fresh), async {
            let mut caller = secured(&peer, &acceptor).await;
            caller.request().await;
            let (socket, tls) = caller.stream.get_mut();
            let mut record = || {
                let mut bytes = Vec::new();
                tls.writer().write_all(OK.as_bytes()).unwrap();
                tls.write_tls(&mut bytes).unwrap();
                bytes
            };
            // The answer, and the beginning of one that nobody asked for.
            let bytes = [&record()[..], &record()[..len]].concat();
            socket.write_all(&bytes).await.unwrap();
            caller
        });
        assert_eq!(text(sent.unwrap()).await.unwrap(), "ok");
        assert_eq!(peer.at_rest(), usize::from(len == 0), "{len}");
    }
}

#[tokio::test]
async fn an_answer_that_ends_with_its_connection_ends_with_a_word_of_tls() {
    for says_goodbye in [true, false] {
        let authority = Authority::new();
        let acceptor = authority.acceptor("127.0.0.1");
        let peer = Peer::with("https", "", authority.trusted()).await;
        let (sent, ()) = tokio::join!(peer.post(Care::Fresh), async {
            let mut caller = secured(&peer, &acceptor).await;
            caller.request().await;
            caller.say("HTTP/1.1 200 OK\r\n\r\nall").await;
            if says_goodbye {
                caller.stream.shutdown().await.unwrap();
            }
        });
        let text = text(sent.unwrap()).await;
        assert_eq!(text.ok().as_deref(), says_goodbye.then_some("all"));
        assert_eq!(peer.at_rest(), 0);
    }
}

#[tokio::test]
async fn a_request_cut_by_the_upstream_is_maybe_sent_under_tls_too() {
    let authority = Authority::new();
    let acceptor = authority.acceptor("127.0.0.1");
    let peer = Peer::with("https", "", authority.trusted()).await;
    let (sent, ()) = tokio::join!(peer.post(Care::Fresh), async {
        secured(&peer, &acceptor).await.request().await;
    });
    assert!(!sent.unwrap_err().is_unsent());
}

#[tokio::test]
async fn an_upstream_that_another_authority_or_name_vouches_for_is_unsent() {
    let trusted = Authority::new();
    for acceptor in [
        Authority::new().acceptor("127.0.0.1"),
        trusted.acceptor("elsewhere.example"),
    ] {
        let peer = Peer::with("https", "", trusted.trusted()).await;
        let (sent, ()) = tokio::join!(peer.post(Care::Any), async {
            let stream = peer.accept().await.stream;
            acceptor.accept(stream).await.unwrap_err();
        });
        let error = sent.unwrap_err();
        assert!(error.is_unsent());
        assert!(chain(&error).contains("TLS"), "{}", chain(&error));
    }
}

#[tokio::test]
async fn an_upstream_that_speaks_no_tls_is_unsent() {
    let peer = silent_peer().await;
    let (sent, ()) = tokio::join!(peer.post(Care::Any), async {
        peer.accept().await.say(OK).await;
    });
    assert!(sent.unwrap_err().is_unsent());
}

#[tokio::test]
async fn the_probe_shakes_hands_and_goes() {
    let authority = Authority::new();
    let acceptor = authority.acceptor("127.0.0.1");
    let peer = Peer::with("https", "", authority.trusted()).await;
    let (probed, mut caller) =
        tokio::join!(peer.upstream.probe_connect(), secured(&peer, &acceptor));
    probed.unwrap();
    assert_eq!(caller.rest().await, b"");
    assert_eq!(peer.at_rest(), 0);
}

#[test]
fn a_ca_file_that_is_missing_empty_or_broken_is_refused_with_a_hint() {
    let refused = |settings: Settings| {
        let target = Target::parse("https://127.0.0.1").unwrap();
        let clock = Arc::new(onceward::clock::SystemClock);
        let error = Upstream::new(target, settings, clock).unwrap_err();
        assert!(error.hint().contains("PEM"), "{}", error.hint());
        error
    };
    let missing = refused(settings("/nowhere/ca.pem".into()));
    assert!(matches!(missing, TlsError::Unreadable { .. }));

    let mut file = NamedTempFile::new().unwrap();
    let empty = refused(settings(file.path().into()));
    assert!(matches!(empty, TlsError::Empty { .. }));

    let broken = b"-----BEGIN CERTIFICATE-----\nbm9uc2Vuc2U=\n-----END CERTIFICATE-----\n";
    file.write_all(broken).unwrap();
    let broken = refused(settings(file.path().into()));
    assert!(matches!(broken, TlsError::Unreadable { .. }));
}
