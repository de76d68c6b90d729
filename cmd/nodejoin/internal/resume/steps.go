package resume

import (
	"slices"

	"nodejoin/steps"
	"nodejoin/steps/doctor"
	"nodejoin/steps/engine"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// Log is the log of the service on a machine.
func Log(goos string) string {
	if goos == "windows" {
		return `C:\var\log\` + doctor.ResumeService + `\resume.log`
	}
	return "/var/log/" + doctor.ResumeService + "/resume.log"
}

// fileID is the step that writes the file.
const fileID = "resume_plan"

// Steps put on a machine what finishes the plan after its reboot: the program and the file with this text. Only
// administrators may change them, since the service runs with all rights.
func Steps(f host.Facts, program steps.Source, text string) *engine.Resume {
	dir := host.Join(f.OS, f.DataDir, "resume")
	path, file, log := host.Join(f.OS, dir, "nodejoin"), host.Join(f.OS, dir, "resume.json"), Log(f.OS)
	if f.OS == "windows" {
		path += ".exe"
	}
	spec := func(id, kind, title string, args any) steps.Spec {
		return steps.Spec{ID: id, Kind: kind, Title: title, Args: steps.MustArgs(args)}
	}
	logDir := host.Dir(f.OS, log)
	return &engine.Resume{Service: doctor.ResumeService, Log: log, Steps: []steps.Spec{
		spec("resume_dir", "directory", "Folder for after the reboot",
			&kinds.Directory{Path: dir, Access: host.AccessPrivate}),
		spec("resume_log_dir", "directory", "Folder of the log of "+doctor.ResumeService,
			&kinds.Directory{Path: logDir, Access: host.AccessPrivate}),
		spec("resume_program", "binary", "nodejoin, for after the reboot", &kinds.Binary{Source: program, Path: path,
			Services: []string{doctor.ResumeService}}),
		spec(fileID, "file", "The plan, for after the reboot",
			&kinds.File{Path: file, Content: text, Access: host.AccessPrivate}),
		spec("resume_service", "service", "Service "+doctor.ResumeService+", for after the reboot", &kinds.Service{
			State: host.ServiceStopped, Log: log, Makes: []string{logDir},
			ServiceConfig: host.ServiceConfig{Name: doctor.ResumeService, DisplayName: doctor.ResumeService,
				Description: "Finishes a join plan once, after a reboot", Command: []string{path, "resume", file},
				Start: host.StartAuto}}),
	}}
}

// FileStep is the step of Steps that writes the file, for a machine that has the others.
func FileStep(f host.Facts, text string) *engine.Resume {
	r := Steps(f, steps.Source{}, text)
	r.Steps = slices.DeleteFunc(r.Steps, func(s steps.Spec) bool { return s.ID != fileID })
	return r
}
