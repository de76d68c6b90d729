// Parses PowerShell from standard input; prints where it is wrong, and ends with 1 if it is.
const {readFileSync} = require('fs')
const {dirname, join} = require('path')
const {Parser, Language} = require('@vscode/tree-sitter-wasm')

async function main() {
  const folder = dirname(require.resolve('@vscode/tree-sitter-wasm'))
  await Parser.init({locateFile: name => join(folder, name)})
  const parser = new Parser()
  parser.setLanguage(await Language.load(join(folder, 'tree-sitter-powershell.wasm')))
  const root = parser.parse(readFileSync(0, 'utf8')).rootNode
  const show = node => {
    if (node.isError || node.isMissing) {
      console.log(`${node.startPosition.row + 1}:${node.startPosition.column + 1}: ${node.isMissing ? 'missing ' : ''}${node.type}`)
    } else if (node.hasError) {
      node.children.forEach(show)
    }
  }
  show(root)
  process.exitCode = root.hasError ? 1 : 0
}

main().catch(err => {
  console.error(err)
  process.exitCode = 2
})
