//! `mooring component`: one component as a process of its own, from this same binary.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::ValueEnum;
use fake_apiserver::envtest::Program;

use crate::cluster::compose;

/// Components that can run as separate processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Component {
    /// The cloud.
    MockEc2,
    /// The Kubernetes API server.
    FakeApiserver,
    /// The Kubernetes API server with the command line of kube-apiserver, for envtest.
    KubeApiserver,
    /// The storage of that API server, with the command line of etcd.
    Etcd,
    /// The CSI driver.
    CsiMock,
    /// The control loops.
    Controllers,
    /// The volume side of kubelet.
    NodeAgent,
    /// The container runtime of a machine.
    Machine,
    /// A machine with everything on it: its containers, the driver's node service, kubelet.
    Node,
    /// Creates the CSIDriver object and StorageClasses.
    Addons,
    /// Prints the disk state of the machine on which it runs.
    Look,
    /// Ends a process of the machine on which it runs, and starts it again.
    Part,
}

/// Arguments of `mooring component`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The component.
    #[arg(value_enum)]
    component: Component,
    /// Arguments of the component; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

pub(super) fn main(args: Args) -> ExitCode {
    let name = args.component.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default();
    let line = std::iter::once(OsString::from(name)).chain(args.args);
    match args.component {
        Component::MockEc2 => mock_ec2::main_with(line),
        Component::FakeApiserver => fake_apiserver::main_with(line),
        Component::KubeApiserver => Program::KubeApiserver.run(line, Some(super::envtest::BESIDE)),
        Component::Etcd => Program::Etcd.run(line, None),
        Component::CsiMock => csi_mock::main_with(line),
        Component::Controllers => controllers::main_with(line),
        Component::NodeAgent => controllers::node_agent_main_with(line),
        Component::Machine => controllers::machine_main_with(line),
        Component::Node => compose::node::main_with(line),
        Component::Part => compose::part::main_with(line),
        Component::Look => compose::look::main_with(line),
        Component::Addons => compose::addons::main_with(line),
    }
}
