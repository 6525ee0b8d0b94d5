//! The agent in the live world: sockets in the plugin directory, volumes as directories, real time.

use std::path::Path;

use csi_disk::DirectoryDisk;
use substrate::clock::TimeScale;

use super::*;

/// Starts a driver with its two sockets under `root`. A crash removes it.
fn driver(world: &World, root: &Path, disk: &Arc<dyn Disk>) -> Process {
    let (socket, registry) = (root.join("csi.sock"), root.join("plugins_registry"));
    let disk = disk.clone();
    Process::start(world, "csi-node-a", move |ctx| {
        let config = NodeConfig::new("node-a", "i-1", "us-east-1a", disk.clone());
        substrate::listen::unix(&ctx, &socket, csi_mock::node::start(&ctx, config)).expect("the driver's socket");
        let endpoint = socket.display().to_string();
        let registrar = csi_mock::registration::start(&ctx, "ebs.csi.aws.com", &endpoint);
        substrate::listen::unix(&ctx, &registry.join("ebs.csi.aws.com-reg.sock"), registrar).expect("its registrar's");
        std::future::pending()
    })
}

async fn lifecycle(root: &Path) {
    let world = World::live(Options { scale: TimeScale::new(100.0), ..Options::default() });
    let disk: Arc<dyn Disk> =
        Arc::new(DirectoryDisk::new("node-a", &root.join("node"), &root.join("volumes")).expect("a disk"));
    let registry = root.join("plugins_registry");
    std::fs::create_dir_all(&registry).expect("a directory");
    let toy = Toy::default();
    let served = toy.clone();
    let server = Process::start(&world, "fake-apiserver", move |ctx| {
        ctx.world().fabric().bind(&ctx, "apiserver", served.service());
        std::future::pending()
    });
    let first = driver(&world, root, &disk);
    let (node_disk, node_root) = (disk.clone(), root.join("node"));
    let (runtime_socket, machine_disk) = (root.join("runtime.sock"), disk.clone());
    let dialled = format!("unix://{}", runtime_socket.display());
    let machine = Process::start(&world, "node-a", move |ctx| {
        let runtime = machine::start(&ctx, MachineConfig::new("node-a", machine_disk.clone()));
        substrate::listen::unix(&ctx, &runtime_socket, runtime).expect("the runtime's socket");
        std::future::pending()
    });
    let kubelet = Process::start(&world, "node-a/kubelet", move |ctx| {
        let plugins = Plugins::Directory(registry.clone());
        let socket = substrate::dial::grpc(&dialled).expect("an endpoint");
        let runtime = Link::over(&ctx, "runtime-node-a", socket);
        let config = NodeAgentConfig {
            root: node_root.clone(),
            ..NodeAgentConfig::new("node-a", "i-1", "us-east-1a", node_disk.clone(), plugins, runtime)
        };
        let client = Client::new(&ctx, Link::connect(&ctx, "apiserver"), "kubelet");
        run(ctx, client, config)
    });
    let node = Node { machine, driver: first.clone(), kubelet };
    let rig = Rig { world: world.clone(), toy, disk, node, settings: Settings::default(), _server: server };
    rig.until("registered", 5, || rig.count("node-agent.registered") == 1).await;
    rig.until("ready", 5, || rig.ready()).await;
    rig.run_pod("p").await;
    rig.until("records", 5, || rig.count("workload.synced") >= 3).await;

    // Over sockets too, containers outlive the agent that asked for them.
    let before = rig.toy.get("pods", "default", "p")["status"]["containerStatuses"].clone();
    rig.node.kubelet.restart();
    let synced = rig.count("workload.synced");
    rig.until("registered again", 5, || rig.count("node-agent.registered") == 2).await;
    rig.until("more records", 5, || rig.count("workload.synced") > synced).await;
    assert_eq!(rig.count("workload.started"), 1);
    assert_eq!(rig.toy.get("pods", "default", "p")["status"]["containerStatuses"], before);

    // A restarted driver creates new sockets: it is deregistered and registered again.
    first.crash();
    std::fs::remove_file(root.join("plugins_registry/ebs.csi.aws.com-reg.sock")).expect("a stale socket");
    let drivers = || rig.toy.get("csinodes", "", "node-a")["spec"]["drivers"].as_array().map_or(0, Vec::len);
    rig.until("deregistered", 5, || drivers() == 0).await;
    let _second = driver(&world, root, &rig.disk);
    rig.until("registered again", 5, || drivers() == 1 && rig.count("node-agent.registered") == 3).await;

    rig.delete_gracefully("p");
    rig.until("deleted", 5, || rig.toy.get("pods", "default", "p").is_null()).await;
    rig.until("not in use", 5, || rig.node()["status"]["volumesInUse"].is_null()).await;
    assert!(rig.disk.mounts().await.expect("mounts").is_empty());
    let volumes = std::fs::read_dir(root.join("volumes")).expect("volumes").count();
    assert_eq!(volumes, 1, "the volume's bytes stay");
    rig.node.crash();
}

#[test]
fn a_driver_is_found_by_its_socket_and_a_pod_runs_on_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(lifecycle(directory.path()));
}
