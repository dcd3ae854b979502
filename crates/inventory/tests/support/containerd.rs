//! Debian's containerd, with one image and no network.

use super::{Daemon, layer, run};

/// What [`import`] brings in: it sleeps unless told otherwise.
pub const IMAGE: &str = "docker.io/library/named-image:3";

/// Starts it.
pub fn containerd() -> Daemon {
    let daemon = Daemon::start("containerd", |folder, _| {
        let (config, folder) = (folder.join("config.toml"), folder.display());
        let text = format!(
            "version = 2\nroot = \"{folder}/root\"\nstate = \"{folder}/state\"\n\
             [grpc]\naddress = \"{folder}/containerd.sock\"\n\
             [ttrpc]\naddress = \"{folder}/containerd.sock.ttrpc\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"{IMAGE}\"\n\
             restrict_oom_score_adj = true\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd]\nsnapshotter = \"native\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\nRoot = \"{folder}/runc\"\n"
        );
        std::fs::write(&config, text).unwrap();
        vec!["--config".to_owned(), config.to_str().unwrap().to_owned()]
    });
    daemon.eventually("containerd answers", || ctr(&daemon, "default", &["version"]).ok());
    daemon
}

/// `ctr` in a namespace of it.
pub fn ctr(daemon: &Daemon, namespace: &str, arguments: &[&str]) -> Result<String, String> {
    let socket = daemon.path("containerd.sock");
    run("ctr", &[&["-a", socket.to_str().unwrap(), "-n", namespace], arguments].concat())
}

/// The image in the form `docker save` writes.
pub fn import(daemon: &Daemon, namespace: &str) {
    let folder = daemon.folder.path();
    let tar = layer(folder);
    let sum = run("sha256sum", &[tar.to_str().unwrap()]).unwrap();
    let sum = sum.split(' ').next().unwrap();
    let config = format!(
        "{{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{{\"Entrypoint\":[\"/bin/sleep\",\"600\"]}},\
          \"rootfs\":{{\"type\":\"layers\",\"diff_ids\":[\"sha256:{sum}\"]}}}}"
    );
    std::fs::write(folder.join("config.json"), config).unwrap();
    let manifest = format!(
        "[{{\"Config\":\"config.json\",\"RepoTags\":[\"{IMAGE}\"],\"Layers\":[\"layer.tar\"]}}]"
    );
    std::fs::write(folder.join("manifest.json"), manifest).unwrap();
    let image = folder.join("image.tar");
    let files = ["manifest.json", "config.json", "layer.tar"];
    let create = ["-C", folder.to_str().unwrap(), "-cf", image.to_str().unwrap()];
    run("tar", &[&create[..], &files[..]].concat()).unwrap();
    let import = ["images", "import", "--snapshotter", "native", image.to_str().unwrap()];
    ctr(daemon, namespace, &import).unwrap();
}
