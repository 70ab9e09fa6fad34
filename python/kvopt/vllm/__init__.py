"""KVopt inside a running vLLM. Nothing here is imported by `import kvopt`; the modules below import vLLM."""
