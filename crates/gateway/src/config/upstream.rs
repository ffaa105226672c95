//! The service behind the gateway, and how it is spoken to.

use std::net::{IpAddr, SocketAddr};

use http::HeaderName;

use super::fields::Part;
use super::problem::{At, Source};
use super::reader::Section;
use super::written::header_name;
use super::{HostRule, KeyHeader, Upstream, check, parse as values};
use crate::upstream::Target;

/// Reads `upstream`, the URL alone or a table; what the command line says counts before it.
pub(super) fn read(
    source: &Source<'_>,
    top: &Section<'_>,
    given: Option<String>,
    listen: SocketAddr,
) -> Option<Upstream> {
    let (written, table) = match top.is_table("upstream") {
        true => {
            let table = top.table_or_empty("upstream", Part::Upstream);
            (table.parsed("url", values::upstream_url), table)
        }
        false => {
            let url = top.parsed("upstream", values::upstream_url);
            (url, Section::absent(source, Part::Upstream))
        }
    };
    let missing = match top.is_table("upstream") {
        true => !table.has("url"),
        false => !top.has("upstream"),
    };
    let url = match given {
        Some(url) => match values::upstream_url(&url) {
            Ok(url) => Some(At::nowhere(url)),
            Err(invalid) => {
                let message = format!("upstream {url:?} {invalid}");
                source.refuse(&None, message, invalid.hint());
                None
            }
        },
        None => {
            if missing {
                let span = top.name_of("upstream").or(Some(0..0));
                let span = span.filter(|_| !source.text().is_empty());
                let hint = "write upstream = \"http://127.0.0.1:3000\", or give --upstream";
                source.refuse(&span, "there is no upstream", hint);
            }
            written
        }
    };
    if let Some(url) = &url {
        warn_loop(source, url, listen);
    }
    let words = [
        ("preserve", HostRule::Preserve),
        ("upstream", HostRule::Upstream),
    ];
    let key_header = table.parsed("key_header", |text| match text {
        "drop" => Ok(KeyHeader::Drop),
        text => header_name(text).map(KeyHeader::Name),
    });
    let usual = KeyHeader::Name(HeaderName::from_static("idempotency-key"));
    Some(Upstream {
        connect_timeout: check::span_or(&table, "connect_timeout", 5),
        ca_file: table.path("ca_file").map(|at| at.value),
        host: table
            .word("host", &words, &[])
            .map_or_else(HostRule::default, |at| at.value),
        key_header: key_header.map_or(usual, |at| at.value),
        url: url?.value,
    })
}

/// Warns about a service that is the gateway itself.
fn warn_loop(source: &Source<'_>, url: &At<String>, listen: SocketAddr) {
    if Target::parse(&url.value).is_ok_and(|target| leads_to(&target, listen)) {
        source.warn(
            &url.span,
            format!(
                "upstream {:?} is where the gateway itself listens",
                url.value
            ),
            "name the service behind: requests would go round in circles",
        );
    }
}

/// Whether what is sent to `target` arrives at `listen`, as far as that can be told from here.
fn leads_to(target: &Target, listen: SocketAddr) -> bool {
    if target.port() != listen.port() {
        return false;
    }
    let here = listen.ip().to_canonical();
    match target.host().parse::<IpAddr>() {
        Ok(there) => {
            let there = there.to_canonical();
            // An unspecified address means every one of this machine, on either side.
            let all = |ip: IpAddr, other: IpAddr| {
                ip.is_unspecified() && (other.is_loopback() || other.is_unspecified())
            };
            there == here || all(here, there) || all(there, here)
        }
        Err(_) => {
            let local = target.host().eq_ignore_ascii_case("localhost");
            local && (here.is_loopback() || here.is_unspecified())
        }
    }
}
