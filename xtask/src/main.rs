//! Tasks on the repository itself: generators, whose output is committed, and replays.

mod descriptions;
mod docs;
#[cfg(test)]
mod documents;
mod go;
mod image;
mod kinds;
mod lots;
mod program;
mod renames;
mod replay;
mod sbom;
mod schema;
mod soak;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};

/// Tasks on the repository itself.
#[derive(Parser)]
#[command(name = "xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// The tables of fake-apiserver's kinds: `table.rs` from the recorded discovery documents, `descriptions.gz` from the
    /// documentation of the crate k8s-openapi and, where the API types are at hand, `schema.txt` from the tags of their
    /// fields
    Kinds {
        /// Directory with checkouts of kubernetes/{api,apimachinery,apiextensions-apiserver,kube-aggregator}, all at
        /// the tag that the head of schema.rs names
        #[arg(long, value_name = "DIR")]
        types: Option<PathBuf>,
        /// Writes nothing; fails when what is committed differs
        #[arg(long)]
        check: bool,
    },
    /// The container image of compose.yaml, FROM scratch: a `mooring` that is built already, and the filesystem tools of
    /// this machine's Debian packages. Prints its size
    Image {
        /// The program; target/release/mooring when absent
        #[arg(long, value_name = "PATH")]
        mooring: Option<PathBuf>,
        /// Directory of the build context
        #[arg(long, value_name = "DIR", default_value = "target/image")]
        context: PathBuf,
        /// The image's name
        #[arg(long, value_name = "NAME", default_value = "mooring:latest")]
        tag: String,
        /// Does not call docker
        #[arg(long)]
        context_only: bool,
    },
    /// The SBOM of a release (CycloneDX 1.6): each crate that `mooring` links, with its version, licence and checksum, and
    /// the standard library and C library of a static program
    Sbom {
        /// The target that the program is built for
        #[arg(long, value_name = "TRIPLE", default_value = "x86_64-unknown-linux-gnu")]
        target: String,
        /// The file to write
        #[arg(long, value_name = "PATH")]
        out: PathBuf,
    },
    /// docs/events.md, docs/faults.md, docs/scenarios.md and docs/schema/, from the types of events, the tables of faults
    /// and those of scenario files
    Docs {
        /// Writes nothing; fails when what is committed differs
        #[arg(long)]
        check: bool,
    },
    /// Compares two commits as streams of tokens, without comments and strings: exit code 1 when they differ in more than
    /// the listed renames
    Renames(renames::Args),
    /// Runs each seed of each scenario in two processes and once over pipes, and compares the traces byte for byte;
    /// exit code 1 when they differ or a run fails. Runs the program that the variable MOORING names, or a release
    /// build
    Replay(replay::Args),
    /// Runs `mooring up` for half an hour with a load like a StatefulSet's under random faults; exit code 1 when an
    /// invariant does not hold, memory grows after minute 5, or a descriptor, loop device or mount is left
    Soak(soak::Args),
}

fn main() -> Result<ExitCode, anyhow::Error> {
    let args = Args::parse();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    match args.task {
        Task::Kinds { types, check } => {
            let root = repository.join("fake-apiserver");
            let discovery = root.join("testdata/discovery.json");
            let text = std::fs::read_to_string(&discovery).with_context(|| discovery.display().to_string())?;
            let resources = kinds::read(&serde_json::from_str(&text)?)?;
            put(&root.join("model/src/kinds/table.rs"), &kinds::render(&resources), check, "kinds")?;
            put(&root.join("model/src/kinds/named.rs"), &kinds::render_names(&resources), check, "kinds")?;
            let of_types = root.join("model/src/kinds/schema.txt");
            if let Some(types) = types {
                put(&of_types, &schema::render(&types, &resources)?, check, "kinds")?;
            }
            let own = std::fs::read_to_string(root.join("model/src/kinds/descriptions.txt"))?;
            let text = descriptions::render(&std::fs::read_to_string(&of_types)?, &own)?;
            put_packed(&root.join("model/src/kinds/descriptions.gz"), &text, check)?;
        }
        Task::Image { mooring, context, tag, context_only } => {
            let mooring = mooring.unwrap_or_else(|| target(&repository).join("release/mooring"));
            let context = repository.join(context);
            let size = image::gather(&repository.join("Dockerfile"), &mooring, &context)?;
            if !context_only {
                image::build(&mut std::process::Command::new("docker"), &context, &tag)?;
            }
            println!("{}: {size}", if context_only { context.display().to_string() } else { tag });
        }
        Task::Sbom { target, out } => {
            let text = sbom::render(&repository, &target)?;
            std::fs::write(&out, text).with_context(|| out.display().to_string())?;
            println!("{}: written", out.display());
        }
        Task::Docs { check } => {
            for (path, text) in docs::all(&repository)? {
                put(&path, &text, check, "docs")?;
            }
        }
        Task::Soak(args) => return soak::run(&target(&repository), &args).map(verdict),
        Task::Renames(args) => return renames::run(&repository, &args).map(verdict),
        Task::Replay(args) => return replay::run(&repository, &args).map(verdict),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the directory of cargo's build output.
fn target(repository: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from)
}

fn verdict(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Like [`put`] for a compressed text: compares the text, not the compressed bytes.
fn put_packed(path: &Path, text: &str, check: bool) -> Result<(), anyhow::Error> {
    let shown = path.display();
    let there = std::fs::read(path).ok().and_then(|bytes| descriptions::unpack(&bytes).ok());
    if there.as_deref() == Some(text) {
        println!("{shown}: as generated");
    } else if check {
        bail!("{shown} is not what the generator writes: run `cargo run -p xtask -- kinds`");
    } else {
        std::fs::write(path, descriptions::pack(text)?).with_context(|| shown.to_string())?;
        println!("{shown}: written");
    }
    Ok(())
}

fn put(path: &Path, text: &str, check: bool, task: &str) -> Result<(), anyhow::Error> {
    let shown = path.display();
    if check {
        let there = std::fs::read_to_string(path).with_context(|| shown.to_string())?;
        if there != text {
            bail!("{shown} is not what the generator writes: run `cargo run -p xtask -- {task}`");
        }
        println!("{shown}: as generated");
    } else {
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        std::fs::write(path, text).with_context(|| shown.to_string())?;
        println!("{shown}: written");
    }
    Ok(())
}
