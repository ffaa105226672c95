//! nginx as a plain proxy: what passing a request on costs where nothing is remembered.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failed;
use crate::process::{Process, free_address, installed_or};
use rustix::process::{Signal, geteuid};
use tempfile::TempDir;
use tokio::net::TcpStream;

/// An nginx of our own: nothing of the machine's configuration is read.
#[derive(Debug)]
pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
    _folder: TempDir,
}

// === impl Nginx ===

impl Nginx {
    /// Starts an nginx before `upstream`.
    pub(crate) async fn start(upstream: SocketAddr) -> Result<Self, Failed> {
        let program = find()?;
        let folder = tempfile::tempdir()?;
        let address = free_address()?;
        let path = folder.path().join("nginx.conf");
        let text = config(folder.path(), address, upstream, geteuid().is_root());
        std::fs::write(&path, text)?;
        let log = folder.path().join("log");
        let mut command = Command::new(program);
        command.arg("-p").arg(folder.path()).arg("-c").arg(path);
        // The master ends its workers when it is asked to end; killed, it would leave them.
        let mut process = Process::start("nginx", command, &log, Signal::TERM)?;
        process
            .until(async || TcpStream::connect(address).await.is_ok())
            .await?;
        Ok(Self {
            address,
            process,
            _folder: folder,
        })
    }
}

fn config(folder: &Path, listen: SocketAddr, upstream: SocketAddr, root: bool) -> String {
    let folder = folder.display();
    // Workers of another user could not enter the folder.
    let user = if root { "user root;" } else { "" };
    format!(
        r#"
daemon off;
{user}
worker_processes auto;
pid {folder}/pid;
error_log stderr warn;
events {{
    worker_connections 1024;
}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_body_buffer_size 64k;
    keepalive_requests 1000000000;
    tcp_nodelay on;
    upstream payments {{
        server {upstream};
        keepalive 256;
        keepalive_requests 1000000000;
    }}
    server {{
        listen {listen} backlog=1024 reuseport;
        location / {{
            proxy_pass http://payments;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }}
    }}
}}
"#
    )
}

/// Returns the nginx of this machine, installed if need be and if we may.
fn find() -> Result<PathBuf, Failed> {
    installed_or("nginx", "nginx-light", installed)
}

fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join("nginx"))
        .find(|file| file.is_file())
}
