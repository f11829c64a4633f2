#!/bin/sh
# Stands for MCP servers that npm installs: over stdio, with the tools of a server for files.
tools=
for name in read_file read_text_file read_multiple_files write_file list_directory directory_tree search_files get_file_info; do
  tools="$tools${tools:+,}{\"name\":\"$name\",\"inputSchema\":{\"type\":\"object\"}}"
done
while read -r message; do
  id=${message#*\"id\":}
  id=${id%%[,\}]*}
  case $message in
    *'"initialize"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"files\",\"version\":\"1\"}}}" ;;
    *'"tools/list"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[$tools]}}" ;;
    *'"id":'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}" ;;
  esac
done
