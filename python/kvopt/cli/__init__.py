"""The `kvopt` command. Each subcommand is a module that is loaded when it is called."""
