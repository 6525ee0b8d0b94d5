//! `mooring` as it is shipped: compiled and laid out by profiles of itself.
//!
//! A simulation is many short, different pieces of code, so what it waits for is memory, that of the instructions
//! included. A profile puts what runs together and the rest out of the way: first in each function (rustc, with the
//! counts of an instrumented build), then in the whole program (BOLT, with the counts of an instrumented program).

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::program;

/// Seeds with which each scenario is run: other losses and other orders take other ways.
const SEEDS: [&str; 3] = ["1", "2", "3"];

/// Builds `mooring` by its profiles and gives where it is; with `figures`, runs the harness's bench on it.
///
/// # Errors
/// Where a tool of LLVM is missing, or a build, a scenario or the bench fails.
pub fn run(repository: &Path, figures: bool) -> Result<(), anyhow::Error> {
    let compiler = Compiler::ask()?;
    let [profdata, bolt, merge_fdata] =
        [compiler.tool("llvm-profdata")?, compiler.tool("llvm-bolt")?, compiler.tool("merge-fdata")?];
    let home = repository.join("target/shipped");
    let [counts, edges] = ["counts", "edges"].map(|name| home.join(name));
    for dir in [&counts, &edges] {
        if dir.exists() {
            fs::remove_dir_all(dir).with_context(|| dir.display().to_string())?;
        }
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    let build = Build { repository, home: &home, host: &compiler.host };

    let counting = build.mooring(&format!("-Cprofile-generate={}", counts.display()))?;
    exercise(repository, &counting)?;
    let profile = home.join("mooring.profdata");
    quietly(Command::new(profdata).arg("merge").arg("-o").arg(&profile).arg(&counts))?;

    // BOLT moves code, so it has to know all that refers to it: the linker is to leave its relocations in.
    let compiled = build.mooring(&format!("-Cprofile-use={} -Clink-arg=-Wl,--emit-relocs", profile.display()))?;
    let instrumented = home.join("instrumented");
    let mut instrument = Command::new(&bolt);
    instrument.arg(&compiled).arg("-o").arg(&instrumented).args(["-instrument", "-instrumentation-file-append-pid"]);
    quietly(instrument.arg(format!("-instrumentation-file={}", edges.join("of").display())))?;
    exercise(repository, &instrumented)?;
    let layout = home.join("mooring.fdata");
    quietly(Command::new(merge_fdata).args(files(&edges, "fdata")?).arg("-o").arg(&layout))?;
    let laid_out = home.join("laid-out");
    let mut lay_out = Command::new(bolt);
    lay_out.arg(compiled).arg("-o").arg(&laid_out).arg("-data").arg(layout);
    lay_out.args(["-reorder-blocks=ext-tsp", "-reorder-functions=cdsort"]);
    quietly(lay_out.args(["-split-functions", "-split-all-cold", "-split-eh"]))?;

    let shipped = home.join("mooring");
    copy_in_pages(&laid_out, &shipped)?;
    if figures {
        let mut bench = cargo();
        bench.args(["bench", "--locked", "--package", "harness", "--bench", "figures"]);
        done(bench.env("MOORING", &shipped).current_dir(repository))?;
    }
    println!("{}", shipped.display());
    Ok(())
}

/// What of the compiler matters here.
struct Compiler {
    /// The triple that it runs on
    host: String,
    /// The major version of its LLVM, whose profiles only tools of the same version are sure to read
    llvm: String,
}

impl Compiler {
    fn ask() -> Result<Self, anyhow::Error> {
        let said = said(rustc().arg("-vV"))?;
        let line = |key: &str| {
            let value = said.lines().find_map(|line| line.strip_prefix(key));
            value.map(str::trim).with_context(|| format!("`rustc -vV` has no line «{key}»"))
        };
        let llvm = line("LLVM version:")?;
        let major = llvm.split('.').next().unwrap_or(llvm);
        Ok(Self { host: line("host:")?.to_owned(), llvm: major.to_owned() })
    }

    /// A program of this compiler's LLVM: rustup's, or a distribution's of the same version.
    fn tool(&self, name: &str) -> Result<PathBuf, anyhow::Error> {
        let Self { host, llvm } = self;
        let sysroot = said(rustc().args(["--print", "sysroot"]))?;
        let mut places = vec![
            Path::new(sysroot.trim()).join(format!("lib/rustlib/{host}/bin/{name}")),
            PathBuf::from(format!("/usr/lib/llvm-{llvm}/bin/{name}")),
        ];
        let path = env::var_os("PATH").unwrap_or_default();
        places.extend(env::split_paths(&path).map(|dir| dir.join(format!("{name}-{llvm}"))));
        places.into_iter().find(|place| place.is_file()).with_context(|| {
            format!(
                "no {name} of LLVM {llvm}, this rustc's, was found: install LLVM {llvm} with BOLT (Debian: llvm-{llvm} \
                 and bolt-{llvm})"
            )
        })
    }
}

/// Builds in a directory of their own, since each other flag of the compiler makes everything anew.
struct Build<'a> {
    repository: &'a Path,
    home: &'a Path,
    host: &'a str,
}

impl Build<'_> {
    /// The program, compiled with these flags.
    fn mooring(&self, flags: &str) -> Result<PathBuf, anyhow::Error> {
        let others = env::var("RUSTFLAGS").unwrap_or_default();
        let mut build = cargo();
        // With a target, flags are not for build scripts and procedural macros.
        build.args(["build", "--locked", "--package", "harness", "--profile", "dist", "--target", self.host]);
        build.arg("--target-dir").arg(self.home).env("RUSTFLAGS", format!("{others} {flags}").trim());
        done(build.current_dir(self.repository))?;
        Ok(self.home.join(self.host).join("dist/mooring"))
    }
}

/// Runs what a profile is to know: every scenario simulated, and two over real sockets.
fn exercise(repository: &Path, mooring: &Path) -> Result<(), anyhow::Error> {
    let scenarios = repository.join("scenarios");
    let run = |scenario: &Path, options: &[&str]| {
        let mut run = Command::new(mooring);
        quietly(run.arg("run").arg(scenario).args(options))
    };
    for scenario in program::scenarios(repository)? {
        for seed in SEEDS {
            run(&scenario, &["--seed", seed])?;
        }
    }
    for name in ["first-volume.yaml", "migration.yaml"] {
        run(&scenarios.join(name), &["--live", "--backend", "directory", "--time-scale", "100"])?;
    }
    Ok(())
}

/// Copies a program a page at a time. A file keeps the pieces in which it was written while it is cached, and Linux
/// maps such a piece as a whole: what is resident of a program that was written in large ones is most of it.
fn copy_in_pages(from: &Path, to: &Path) -> Result<(), anyhow::Error> {
    let mut source = fs::File::open(from).with_context(|| from.display().to_string())?;
    // Not over what is there: it may run, and cached pieces of an old file stay.
    if to.exists() {
        fs::remove_file(to).with_context(|| to.display().to_string())?;
    }
    let mut target = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(to)
        .with_context(|| to.display().to_string())?;
    let mut page = [0; 4096];
    loop {
        match source.read(&mut page)? {
            0 => return Ok(()),
            read => target.write_all(&page[..read])?,
        }
    }
}

/// The files of a directory that have this extension, by name.
fn files(dir: &Path, extension: &str) -> Result<Vec<PathBuf>, anyhow::Error> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|has| has == extension) {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn rustc() -> Command {
    Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// What a command printed.
fn said(command: &mut Command) -> Result<String, anyhow::Error> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs a command to its end; what it prints is shown only if it fails.
fn quietly(command: &mut Command) -> Result<(), anyhow::Error> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        for printed in [&output.stdout, &output.stderr] {
            eprint!("{}", String::from_utf8_lossy(printed));
        }
        bail!("{command:?}: {}", output.status);
    }
    Ok(())
}

/// Runs a command to its end.
fn done(command: &mut Command) -> Result<(), anyhow::Error> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_the_package_that_has_it() {
        let compiler = Compiler { host: "nowhere".to_owned(), llvm: "0".to_owned() };
        let error = compiler.tool("llvm-bolt").unwrap_err().to_string();
        assert!(error.contains("no llvm-bolt of LLVM 0") && error.contains("Debian: llvm-0 and bolt-0"), "{error}");
    }

    #[test]
    fn a_copy_replaces_what_was_there_with_the_same_bytes_and_can_be_executed() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        let bytes: Vec<u8> = (0..10_000u32).map(|at| at.to_le_bytes()[0]).collect();
        fs::write(&from, &bytes).unwrap();
        fs::write(&to, "what is longer than the other would leave something behind".repeat(1000)).unwrap();
        copy_in_pages(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), bytes);
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn files_are_found_by_their_extension_in_the_order_of_their_names() {
        let home = tempfile::tempdir().unwrap();
        for name in ["b.yaml", "a.yaml", "c.txt"] {
            fs::write(home.path().join(name), "").unwrap();
        }
        let expected = [home.path().join("a.yaml"), home.path().join("b.yaml")];
        assert_eq!(files(home.path(), "yaml").unwrap(), expected);
    }
}
