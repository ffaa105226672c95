//! The template: a database cluster that is made once and copied for every server.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::give;
use super::process::Programs;

/// Copies the template to `data`, and makes it first if nobody has.
pub(super) async fn copy(programs: &Programs, data: &Path) {
    let template = place(programs);
    if !template.exists() {
        make(programs, &template).await;
    }
    let owner = std::fs::metadata(&template).expect("it is there").uid();
    assert_eq!(
        owner,
        programs.owner(),
        "{} belongs to somebody else: remove it",
        template.display()
    );
    let mut command = programs.command_of_system("cp");
    command.args(["-a", "--reflink=auto", "--"]);
    command.arg(&template).arg(data);
    programs.run(command).await;
}

/// Where it is: one for each version and user.
fn place(programs: &Programs) -> PathBuf {
    let name = format!(
        "onceward-postgres-template-{}-{}",
        programs.version(),
        programs.owner()
    );
    std::env::temp_dir().join(name)
}

/// Makes it elsewhere and moves it into place as a whole, since others may be doing the same.
async fn make(programs: &Programs, template: &Path) {
    let folder = tempfile::Builder::new()
        .prefix("onceward-postgres-initdb-")
        .tempdir()
        .expect("a place for temporary files");
    give(programs, folder.path());
    let data = folder.path().join("data");
    let mut command = programs.command("initdb");
    command.args(["--username=postgres", "--auth=trust", "--encoding=UTF8"]);
    command.args(["--locale=C", "--no-sync", "--no-instructions", "-D"]);
    command.arg(&data);
    programs.run(command).await;
    match std::fs::rename(&data, template) {
        Ok(()) => {}
        // Somebody was faster, and theirs is as good.
        Err(error)
            if [ErrorKind::DirectoryNotEmpty, ErrorKind::AlreadyExists].contains(&error.kind()) => {
        }
        Err(error) => panic!("{} cannot be made: {error}", template.display()),
    }
}
