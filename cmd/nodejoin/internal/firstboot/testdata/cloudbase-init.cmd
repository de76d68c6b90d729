rem cmd
@echo off
rem n-1 joins its cluster at its first boot. Keep this secret: it has tokens.
set dir=C:\ProgramData\nodejoin-first-boot
if not exist %dir% mkdir %dir%
icacls.exe %dir% /inheritance:r /grant:r "*S-1-5-18:(OI)(CI)F" "*S-1-5-32-544:(OI)(CI)F" >nul
if %errorlevel% neq 0 echo The rights of %dir% cannot be set.>>%dir%.log & rmdir /s /q %dir% & exit /b 1
>%dir%\run.cmd echo @echo off
>>%dir%\run.cmd echo rem Joins this machine to its cluster, once. nodejoin user-data wrote this for n-1.
>>%dir%\run.cmd echo cd /d C:\ProgramData\nodejoin-first-boot
>>%dir%\run.cmd echo set log=C:\ProgramData\nodejoin-first-boot.log
>>%dir%\run.cmd echo set code=1
>>%dir%\run.cmd echo if exist nodejoin.exe goto join
>>%dir%\run.cmd echo for /l %%%%i in ^(1,1,40^) do if not exist nodejoin.part call :fetch
>>%dir%\run.cmd echo if not exist nodejoin.part echo nodejoin cannot be fetched.^>^>%%log%%
>>%dir%\run.cmd echo if not exist nodejoin.part goto end
>>%dir%\run.cmd echo set sum=
>>%dir%\run.cmd echo for /f "skip=1 delims=" %%%%h in ^('certutil.exe -hashfile nodejoin.part SHA256'^) do if not defined sum set sum=%%%%h
>>%dir%\run.cmd echo if /i not "%%sum%%"=="cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd" goto other
>>%dir%\run.cmd echo ren nodejoin.part nodejoin.exe
>>%dir%\run.cmd echo :join
>>%dir%\run.cmd echo nodejoin.exe first-boot join.b64 ^>^>%%log%% 2^>^&1
>>%dir%\run.cmd echo set code=%%errorlevel%%
>>%dir%\run.cmd echo if not %%code%%==6 goto end
>>%dir%\run.cmd echo rem A reboot is pending; the task goes on after it.
>>%dir%\run.cmd echo shutdown.exe /r /t 5
>>%dir%\run.cmd echo exit /b 0
>>%dir%\run.cmd echo :fetch
>>%dir%\run.cmd echo curl.exe --fail --silent --location --connect-timeout 30 --output nodejoin.new "https://files.example/join/nodejoin"
>>%dir%\run.cmd echo if %%errorlevel%% equ 0 ren nodejoin.new nodejoin.part
>>%dir%\run.cmd echo if not exist nodejoin.part ping.exe -n 16 127.0.0.1 ^>nul
>>%dir%\run.cmd echo exit /b
>>%dir%\run.cmd echo :other
>>%dir%\run.cmd echo echo nodejoin has another digest than the user data says; this machine does not run it.^>^>%%log%%
>>%dir%\run.cmd echo :end
>>%dir%\run.cmd echo cd /d %%SystemRoot%%
>>%dir%\run.cmd echo schtasks.exe /delete /f /tn nodejoin-first-boot ^>nul
>>%dir%\run.cmd echo if not exist C:\ProgramData\nodejoin-first-boot\forget.cmd goto gone
>>%dir%\run.cmd echo call C:\ProgramData\nodejoin-first-boot\forget.cmd
>>%dir%\run.cmd echo if %%errorlevel%% neq 0 set code=1
>>%dir%\run.cmd echo :gone
>>%dir%\run.cmd echo rmdir /s /q C:\ProgramData\nodejoin-first-boot ^& exit /b %%code%%
>%dir%\join.b64 echo eyJ2ZXJzaW9uIjoxLCJub2RlIjoibi0xIiwiZXhwaXJlcyI6IjIwMjYtMDEtMDJUMDM6MDQ6MDVaIiwiYnVuZGxlIjp7ImZyb20iOiJodHRwczovL2ZpbGVzLmV4YW1wbGUvam9pbi9wcm9kLnRhciIsInNoYTI1NiI6ImFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWIifSwic2VydmVyIjoiaHR0cHM6Ly8xMC4wLjAuMTA6NjQ0MyIsImNhIjoiLS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tXG4uLi5cbiIsInRva2VuIjoiYWJjZGVmLi0tLS0tQkVHSU4gQ0VSVElGSUNBVEUtLS0tLVxuLi4uXG4tLS0tLUJFR0lOIEVDIFBSSVZBVEUgS0VZLS0tLS1cbi4uLlxuIiwiYWNjb3VudCI6ImUzMC5lMzAuZTMwIn0K
schtasks.exe /create /f /tn nodejoin-first-boot /sc onstart /ru SYSTEM /rl highest /tr %dir%\run.cmd >nul
if %errorlevel% neq 0 echo The task cannot be made.>>%dir%.log & rmdir /s /q %dir% & exit /b 1
schtasks.exe /run /tn nodejoin-first-boot
