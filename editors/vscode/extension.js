// Starts gradopt-lsp-server for MLIR files.
const { workspace } = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

exports.activate = async () => {
  const command = workspace.getConfiguration("gradopt").get("serverPath");
  const run = { command, transport: TransportKind.stdio };
  client = new LanguageClient("gradopt", "gradopt", { run, debug: run }, { documentSelector: [{ language: "mlir" }] });
  await client.start();
};

exports.deactivate = () => client && client.stop();
